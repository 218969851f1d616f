"""What every part of Cede shares: the words (`cede.api`), the wire (`cede.kube`) and the `cede`
command."""
