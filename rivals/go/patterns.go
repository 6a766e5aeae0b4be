package main

import "sync"

// The patterns of mutators: one allocates for the others, many hardly allocate, many allocate in a small heap.

const (
	ringPlaces     = 64
	batchLength    = 16
	longestMessage = 1024
)

type parcel struct {
	next   *parcel
	bytes  []byte
	number uint64
}

// ring: batches from first on.
type ring struct {
	sync.Mutex
	changed      sync.Cond
	places       *[ringPlaces]*parcel
	first, count int
	// No more will come.
	over bool
}

// receipt: how many messages were consumed, and a number made of them.
type receipt struct{ messages, sum uint64 }

func (r *receipt) add(more receipt) {
	r.messages += more.messages
	r.sum += more.sum
}

// producer: one mutator allocates messages, the others consume them. One that is alone consumes what finds no place.
func producer(what chosen) uint64 {
	batches := uint64(64_000)
	if what.tiny {
		batches = 640
	}
	r := &ring{places: new([ringPlaces]*parcel)}
	r.changed.L = r
	alone := what.threads == 1
	receipts := mutate(what.threads, func(number int) receipt {
		if number == 0 {
			return r.produce(batches, alone)
		}
		return r.consume()
	})
	var all receipt
	for _, receipt := range receipts {
		all.add(receipt)
	}
	require(all.messages == batches*batchLength, "each message was consumed once")
	return all.sum
}

// produce makes all batches; what it consumed by itself.
func (r *ring) produce(batches uint64, alone bool) receipt {
	var consumed receipt
	for number := uint64(0); number < batches; number++ {
		batch := newBatch(number)
		r.Lock()
		for r.count == ringPlaces {
			if alone {
				consumed.add(r.take().consumed())
				r.Lock()
			} else {
				r.changed.Wait()
			}
		}
		r.places[(r.first+r.count)%ringPlaces] = batch
		r.count++
		r.Unlock()
		r.changed.Broadcast()
	}
	r.Lock()
	r.over = true
	r.Unlock()
	r.changed.Broadcast()
	if alone {
		consumed.add(r.consume())
	}
	return consumed
}

// newBatch is a list of messages.
func newBatch(batch uint64) *parcel {
	var list *parcel
	for number := batch * batchLength; number < (batch+1)*batchLength; number++ {
		bytes := make([]byte, scattered(number)%longestMessage)
		for i := range bytes {
			bytes[i] = byte(number + uint64(i))
		}
		list = &parcel{list, bytes, number}
	}
	return list
}

// consume consumes until no more will come.
func (r *ring) consume() receipt {
	var all receipt
	for {
		r.Lock()
		for r.count == 0 {
			if r.over {
				r.Unlock()
				return all
			}
			r.changed.Wait()
		}
		all.add(r.take().consumed())
	}
}

// take takes the first batch, since there is one, and gives up the lock.
func (r *ring) take() *parcel {
	batch := r.places[r.first]
	r.places[r.first] = nil
	r.first = (r.first + 1) % ringPlaces
	r.count--
	r.Unlock()
	r.changed.Broadcast()
	return batch
}

func (p *parcel) consumed() receipt {
	var all receipt
	for ; p != nil; p = p.next {
		all.add(receipt{1, scattered(hashOf(p.bytes) + p.number)})
	}
	return all
}

const (
	agentCount     = 16 // mutators share them among them
	cellCount      = 1024
	lockCount      = 32
	registerCount  = 64
	betweenPosts   = 4 // steps
	betweenNotes   = 4 // posts
	notesUntilRead = 8
)

// cell: the newest note; the sum of all posts, and how many notes there are.
type cell struct {
	newest     *note
	sum, notes uint64
}

type note struct {
	next   *note
	number uint64
}

// field is what the mutators share. Cell i is protected by lock i modulo their number.
type field struct {
	cells *[cellCount]*cell
	locks [lockCount]sync.Mutex
}

// agent: its registers, and the notes that its mutator took.
type agent struct {
	*field
	registers *[registerCount]uint32
	taken     notesRead
}

// notesRead: how many notes, and a number made of them.
type notesRead struct{ count, sum uint64 }

// agents: many unequal mutators that compute for themselves, share cells under locks, and allocate little.
func agents(what chosen) uint64 {
	steps := uint32(200_000)
	if what.tiny {
		steps = 3000
	}
	f := &field{cells: new([cellCount]*cell)}
	for i := range f.cells {
		f.cells[i] = new(cell)
	}
	taken := mutate(what.threads, func(thread int) notesRead {
		a := &agent{field: f}
		for number := thread; number < agentCount; number += what.threads {
			a.act(uint32(number), steps)
		}
		return a.taken
	})
	var all notesRead
	for _, taken := range taken {
		all.add(taken)
	}
	posts, expected := uint64(0), uint64(0)
	for _, cell := range f.cells {
		read := cell.newest.read()
		require(read.count == cell.notes, "a cell has its notes")
		all.add(read)
		posts += cell.sum
	}
	for share := uint32(1); share <= agentCount; share++ {
		expected += uint64(steps * share / betweenPosts / betweenNotes)
	}
	require(all.count == expected, "no note is lost")
	return all.sum + posts
}

// act does all steps of an agent.
func (a *agent) act(number, steps uint32) {
	random := random(8000 + uint64(number))
	a.registers = new([registerCount]uint32)
	registers := a.registers
	for step := uint32(1); step <= steps*(number+1); step++ {
		last := step ^ number
		for i, register := range registers {
			last += register * 5
			registers[i] = last
		}
		if step%betweenPosts == 0 {
			withNote := step%(betweenPosts*betweenNotes) == 0
			a.post(random.below(cellCount), uint64(last), withNote)
		}
	}
}

// post posts a number to a cell.
func (a *agent) post(place uint32, number uint64, withNote bool) {
	var fresh, all *note
	if withNote {
		fresh = new(note)
	}
	lock := &a.locks[place%lockCount]
	lock.Lock()
	c := a.cells[place]
	c.sum += number
	if withNote {
		fresh.number = number
		fresh.next = c.newest
		c.newest = fresh
		c.notes++
		if c.notes == notesUntilRead {
			all = c.newest
			c.newest = nil
			c.notes = 0
		}
	}
	lock.Unlock()
	a.taken.add(all.read())
}

// read reads a list of notes.
func (n *note) read() notesRead {
	var read notesRead
	for ; n != nil; n = n.next {
		read.add(notesRead{1, scattered(n.number)})
	}
	return read
}

func (r *notesRead) add(more notesRead) {
	r.count += more.count
	r.sum += more.sum
}

const (
	listCount   = 64 // of each mutator
	longestList = 16
)

type link struct {
	next   *link
	number uint64
}

// tiny: many mutators that replace short lists in a heap of a few MB.
func tiny(what chosen) uint64 {
	steps := uint64(1_000_000)
	if what.tiny {
		steps = 2000
	}
	return added(mutate(what.threads, func(number int) uint64 {
		return replaceLists(steps, random(6000+uint64(number)))
	}))
}

// newLists is not inlined, so that the array is on the heap.
//
//go:noinline
func newLists() *[listCount]*link { return new([listCount]*link) }

// replaceLists makes a number of all lists, when they are dropped or left.
func replaceLists(steps uint64, random random) uint64 {
	lists := newLists()
	sum := uint64(0)
	for step := uint64(0); step < steps; step++ {
		length := 1 + uint64(random.below(longestList))
		var list *link
		for number := uint64(0); number < length; number++ {
			list = &link{list, step<<8 | number}
		}
		place := random.below(listCount)
		sum = chained(sum, lists[place].added())
		lists[place] = list
	}
	for _, left := range lists {
		sum = chained(sum, left.added())
	}
	return sum
}

// added is made of the numbers of a list.
func (l *link) added() uint64 {
	sum := uint64(0)
	for ; l != nil; l = l.next {
		sum = chained(sum, l.number)
	}
	return sum
}
