package main

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	betweenTakes = 1000 // steps after which a mutator looks for what is ready
	keepOneIn    = 8
)

type resource struct {
	content *scatteredNumber
	number  uint64
}

// scatteredNumber is the number of its resource, scattered.
type scatteredNumber struct{ number uint64 }

// ready are the objects that the collector has found dead: their finalizer puts them here, alive again.
type ready struct {
	sync.Mutex
	some    sync.Cond
	objects []*resource
}

func (r *ready) put(object *resource) {
	r.Lock()
	r.objects = append(r.objects, object)
	r.Unlock()
	r.some.Signal()
}

// next is one of them, or nil.
func (r *ready) next() *resource {
	r.Lock()
	defer r.Unlock()
	return r.last()
}

// wait is one of them, when there is one.
func (r *ready) wait() *resource {
	r.Lock()
	defer r.Unlock()
	for len(r.objects) == 0 {
		r.some.Wait()
	}
	return r.last()
}

func (r *ready) last() *resource {
	last := len(r.objects) - 1
	if last < 0 {
		return nil
	}
	object := r.objects[last]
	r.objects[last] = nil
	r.objects = r.objects[:last]
	return object
}

// finalized is what all mutators know of the objects that were handed out.
type finalized struct {
	ready ready
	// What the finalizer of all objects is.
	finalizer func(*resource)
	// A bit for each object.
	seen []atomic.Uint64
	// Numbers scattered and added.
	sum, count atomic.Uint64
}

// resources: how many there are in a table, how often one is replaced, and how many of those that are handed out are
// kept, the latest ones.
type resources struct {
	length, steps, kept int
	*finalized
}

// finalizers: objects with finalizers in a table, replaced at random; those that are ready are taken, and some of them
// are kept once more. Each mutator has a table, and takes whatever is ready.
func finalizers(what chosen) uint64 {
	all := resources{100_000, 3_000_000, 1000, new(finalized)}
	if what.tiny {
		all.length, all.steps = 1000, 30_000
	}
	all.ready.some.L = &all.ready
	all.finalizer = all.ready.put
	objects := uint64(what.threads * (all.length + all.steps))
	all.seen = make([]atomic.Uint64, (objects+63)/64)
	tables := mutate(what.threads, all.replace)
	live := uint64(what.threads * all.length)
	runtime.GC()
	all.await(objects - live)
	for _, table := range tables {
		for _, resource := range table {
			require(!all.has(resource.number), "an object in the table was not handed out")
		}
	}
	require(all.count.Load()+live == objects, "all others were handed out")
	sum := all.sum.Load()
	tables = nil
	runtime.GC()
	all.await(objects)
	require(all.ready.next() == nil, "no object is handed out twice")
	return sum
}

// replace is what one mutator does; its table.
func (r resources) replace(thread int) []*resource {
	random := random(5000 + uint64(thread))
	first := uint64(thread * (r.length + r.steps))
	table := make([]*resource, r.length)
	kept := make([]*resource, r.kept)
	for step := 0; step < r.length+r.steps; step++ {
		place := step
		if step >= r.length {
			place = int(random.below(uint32(r.length)))
		}
		table[place] = r.fresh(first + uint64(step))
		if step%betweenTakes == 0 {
			for object := r.ready.next(); object != nil; object = r.ready.next() {
				if before := r.take(object); object.number%keepOneIn == 0 {
					kept[before%uint64(r.kept)] = object
				}
			}
		}
	}
	return table
}

// fresh is an object with a finalizer.
func (f *finalized) fresh(number uint64) *resource {
	r := &resource{&scatteredNumber{scattered(number)}, number}
	runtime.SetFinalizer(r, f.finalizer)
	return r
}

// take: an object is handed out; how many were before.
func (f *finalized) take(object *resource) uint64 {
	require(object.content.number == scattered(object.number), "an object that is handed out is whole")
	require(!f.mark(object.number), "an object is handed out once")
	f.sum.Add(scattered(object.number))
	return f.count.Add(1) - 1
}

// await takes what the collector hands out until count objects were handed out. If they are too few, it waits for ever,
// which the runtime reports as a deadlock.
func (f *finalized) await(count uint64) {
	for f.count.Load() < count {
		f.take(f.ready.wait())
	}
}

// has tells whether an object was handed out.
func (f *finalized) has(number uint64) bool {
	return f.seen[number/64].Load()>>(number%64)&1 == 1
}

// mark: it is now; whether it was.
func (f *finalized) mark(number uint64) bool {
	word, bit := &f.seen[number/64], uint64(1)<<(number%64)
	for {
		before := word.Load()
		if before&bit != 0 {
			return true
		}
		if word.CompareAndSwap(before, before|bit) {
			return false
		}
	}
}
