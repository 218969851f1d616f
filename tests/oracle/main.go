// Prints what Kueue itself decides about a picture of a cluster: the order of each queue, who is
// tried, what is available, and which flavors a pending Workload would get.
//
// Input and output are JSON: a list of pictures, and a list of answers. It links the packages of
// Kueue that the manager runs, and takes no decision of its own.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/scheduler/flavorassigner"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/classical"
	preemptioncommon "sigs.k8s.io/kueue/pkg/scheduler/preemption/common"
	"sigs.k8s.io/kueue/pkg/util/expectations"
	"sigs.k8s.io/kueue/pkg/workload"
)

type picture struct {
	ResourceFlavors []kueue.ResourceFlavor `json:"resource_flavors"`
	Cohorts         []kueue.Cohort         `json:"cohorts"`
	ClusterQueues   []kueue.ClusterQueue   `json:"cluster_queues"`
	LocalQueues     []kueue.LocalQueue     `json:"local_queues"`
	Workloads       []kueue.Workload       `json:"workloads"`
}

type assigned struct {
	Mode string `json:"mode"`
	// "flavor/resource" → amount, in Kueue's units
	Usage map[string]int64 `json:"usage"`
}

type answer struct {
	// queue → "flavor/resource" → amount
	Available map[string]map[string]int64 `json:"available"`
	// queue → Workloads that wait in it, in order
	Order map[string][]string `json:"order"`
	// queue → Workloads that are tried
	Tried map[string][]string `json:"tried"`
	// Workload → what it would get now
	Assigned map[string]assigned `json:"assigned"`
}

// Kueue's own preemption is off while Cede preempts: it never finds a candidate
// (preemption_oracle.go, SimulatePreemption).
type noCandidates struct{}

func (noCandidates) SimulatePreemption(
	_ context.Context, queue *schdcache.ClusterQueueSnapshot, _ workload.Info,
	fr resources.FlavorResource, quantity resources.Amount,
) (preemptioncommon.PreemptionPossibility, int) {
	borrow, _ := classical.FindHeightOfLowestSubtreeThatFits(queue, fr, quantity)
	return preemptioncommon.NoCandidates, borrow
}

func newClient(p *picture, workloads []kueue.Workload) client.Client {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kueue.AddToScheme(scheme))
	builder := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&kueue.LocalQueue{}, indexer.QueueClusterQueueKey, indexer.IndexQueueClusterQueue).
		WithIndex(&kueue.Workload{}, indexer.WorkloadQueueKey, indexer.IndexWorkloadQueue).
		WithIndex(&kueue.Workload{}, indexer.WorkloadClusterQueueKey, indexer.IndexWorkloadClusterQueue)
	for i := range p.LocalQueues {
		builder = builder.WithObjects(&p.LocalQueues[i])
	}
	for i := range workloads {
		builder = builder.WithObjects(&workloads[i])
	}
	return builder.Build()
}

func answerFor(ctx context.Context, p *picture) answer {
	log := logr.Discard()
	cache := schdcache.New(newClient(p, p.Workloads), schdcache.WithFairSharing(true))
	// a manager that starts tries also what is in back-off, so the Workloads come afterwards
	queues := qcache.NewManagerForUnitTests(
		newClient(p, nil), cache,
		qcache.WithPreemptionExpectations(expectations.NewStore("oracle")),
	)
	for i := range p.ResourceFlavors {
		cache.AddOrUpdateResourceFlavor(log, &p.ResourceFlavors[i])
	}
	for i := range p.Cohorts {
		must(cache.AddOrUpdateCohort(&p.Cohorts[i]))
	}
	for i := range p.ClusterQueues {
		must(cache.AddClusterQueue(ctx, &p.ClusterQueues[i]))
		must(queues.AddClusterQueue(ctx, &p.ClusterQueues[i]))
	}
	for i := range p.LocalQueues {
		// localqueue_controller.go: a queue on hold is not handed to the manager
		policy := p.LocalQueues[i].Spec.StopPolicy
		if policy == nil || *policy == kueue.None {
			must(queues.AddLocalQueue(ctx, &p.LocalQueues[i]))
		}
	}
	for i := range p.Workloads {
		// an error says that it is not tried
		_ = queues.AddOrUpdateWorkload(log, &p.Workloads[i])
	}
	snapshot, err := cache.Snapshot(ctx)
	must(err)
	result := answer{
		Available: map[string]map[string]int64{},
		Order:     map[string][]string{},
		Tried:     map[string][]string{},
		Assigned:  map[string]assigned{},
	}
	for queue, keys := range queues.Dump() {
		for _, key := range keys {
			result.Tried[string(queue)] = append(result.Tried[string(queue)], string(key))
		}
	}
	for i := range p.ClusterQueues {
		name := kueue.ClusterQueueReference(p.ClusterQueues[i].Name)
		queue := snapshot.ClusterQueue(name)
		if queue == nil {
			// on hold or not active: nothing of it is tried
			delete(result.Tried, string(name))
			continue
		}
		result.Available[string(name)] = available(queue)
		for _, info := range queues.PendingWorkloadsInfo(name) {
			key := string(workload.Key(info.Obj))
			result.Order[string(name)] = append(result.Order[string(name)], key)
			copied := *info
			copied.ClusterQueue = name
			result.Assigned[key] = assign(ctx, &copied, queue, snapshot)
		}
	}
	return result
}

func available(queue *schdcache.ClusterQueueSnapshot) map[string]int64 {
	amounts := map[string]int64{}
	for _, group := range queue.ResourceGroups {
		for _, flavor := range group.Flavors {
			for resource := range group.CoveredResources {
				fr := resources.FlavorResource{Flavor: flavor, Resource: resource}
				amounts[text(fr)] = queue.Available(fr).Int64()
			}
		}
	}
	return amounts
}

func assign(
	ctx context.Context, info *workload.Info, queue *schdcache.ClusterQueueSnapshot,
	snapshot *schdcache.Snapshot,
) assigned {
	assignment := flavorassigner.New(
		info, queue, snapshot.ResourceFlavors, true, noCandidates{}, nil,
		configapi.QuotaCheckBlockUndeclared, resources.NewResourceFormatter(), 0,
	).Assign(ctx, nil)
	usage := map[string]int64{}
	if assignment.RepresentativeMode() != flavorassigner.NoFit {
		for fr, amount := range assignment.Usage.Quota {
			usage[text(fr)] = amount.Int64()
		}
	}
	return assigned{Mode: assignment.RepresentativeMode().String(), Usage: usage}
}

func text(fr resources.FlavorResource) string {
	return string(fr.Flavor) + " " + string(fr.Resource)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctrl.SetLogger(logr.Discard())
	var pictures []picture
	must(json.NewDecoder(os.Stdin).Decode(&pictures))
	answers := make([]answer, 0, len(pictures))
	for i := range pictures {
		answers = append(answers, answerFor(context.Background(), &pictures[i]))
	}
	must(json.NewEncoder(os.Stdout).Encode(answers))
}
