// The DNS server of the local cluster: CoreDNS with the two plugins that its Corefile names, which
// compile in seconds beside Kubernetes; all of its plugins need minutes.
package main

import (
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
