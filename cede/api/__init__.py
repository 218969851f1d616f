"""Every object that Cede reads or writes, as values. All modules are pure."""
