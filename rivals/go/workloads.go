package main

// node: two references and two numbers of 4 bytes. Go's objects have no header.
type node struct {
	side   [2]*node
	number [2]uint32
}

// hole and top keep objects on the heap that the compiler would leave out or put on the stack.
var hole, top *node

func require(condition bool, what string) {
	if !condition {
		panic("broken: " + what)
	}
}

func mixed(sum uint64, number uint32) uint64 { return sum*31 + uint64(number) }

// forest is what the nodes of a run of gcbench have in common.
type forest struct {
	holes bool
	next  uint32
}

func (f *forest) node() *node {
	if f.holes {
		hole = new(node)
	}
	n := new(node)
	f.next++
	n.number[0] = f.next
	return n
}

// grow goes from the root down.
func (f *forest) grow(n *node, height int) {
	if height == 0 {
		return
	}
	for side := range n.side {
		n.side[side] = f.node()
	}
	for _, child := range n.side {
		f.grow(child, height-1)
	}
}

// bottomUp goes from the leaves up.
func (f *forest) bottomUp(height int) *node {
	if height == 0 {
		return f.node()
	}
	left := f.bottomUp(height - 1)
	right := f.bottomUp(height - 1)
	n := f.node()
	n.side[0] = left
	n.side[1] = right
	return n
}

func count(n *node, numbers *uint64) uint64 {
	*numbers = mixed(*numbers, n.number[0])
	nodes := uint64(1)
	for _, child := range n.side {
		if child != nil {
			nodes += count(child, numbers)
		}
	}
	return nodes
}

// gcbench: binary trees, one that stays and many that come and go; with holes, a dead object between the live ones.
func gcbench(tiny, holes bool) uint64 {
	most, doubles := 18, 500_000
	if tiny {
		most, doubles = 8, 500
	}
	f := &forest{holes: holes}
	top = f.node()
	kept := top
	f.grow(kept, most)
	array := make([]float64, doubles)
	for i := range array {
		array[i] = 1 / float64(i+1)
	}
	for height := 4; height <= most; height += 2 {
		trees := 2 * (uint64(8)<<most - 1) / (uint64(2)<<height - 1)
		for i := uint64(0); i < trees; i++ {
			top = f.node()
			f.grow(top, height)
		}
		for i := uint64(0); i < trees; i++ {
			top = f.bottomUp(height)
		}
	}
	top = nil
	require(array[99] == 0.01, "the array is as it was filled")
	numbers := uint64(0)
	nodes := count(kept, &numbers)
	require(nodes == uint64(2)<<most-1, "the tree that stays is whole")
	return nodes ^ numbers<<24
}

// queue: a list of nodes that are appended at one end and taken from the other.
func queue(tiny bool) uint64 {
	length, steps := uint32(1_000_000), uint32(16_000_000)
	if tiny {
		length, steps = 1000, 16_000
	}
	top = new(node)
	head, tail := top, top
	top = nil
	sum := uint64(0)
	for number := uint32(1); number <= steps; number++ {
		n := new(node)
		n.number[0] = number
		tail.side[0] = n
		tail = n
		if number > length {
			sum = mixed(sum, head.number[0])
			head = head.side[0]
		}
	}
	left := uint32(0)
	for n := head; n != nil; n = n.side[0] {
		left++
	}
	require(left == length+1, "the list is whole")
	return sum
}

// refarray: an array of references that grows old, and whose elements are replaced at random by fresh nodes.
func refarray(tiny bool) uint64 {
	length, steps := uint32(1_000_000), uint32(10_000_000)
	if tiny {
		length, steps = 1000, 10_000
	}
	array := make([]*node, length)
	for i := range array {
		array[i] = new(node)
		array[i].number[0] = uint32(i)
	}
	random := uint64(2000)
	for number := uint32(0); number < steps; number++ {
		random = random*6364136223846793005 + 1442695040888963407
		i := (random >> 33) % uint64(length)
		n := new(node)
		n.number[0] = number
		array[i] = n
	}
	sum := uint64(0)
	for _, n := range array {
		sum = mixed(sum, n.number[0])
	}
	return sum
}

// quad: four references and two numbers of 4 bytes.
type quad struct {
	corner [4]*quad
	number [2]uint32
}

// plant makes a tree from the root down, its nodes numbered in that order.
func plant(depth int, next *uint32) *quad {
	q := new(quad)
	*next++
	q.number[0] = *next
	if depth > 0 {
		for corner := range q.corner {
			q.corner[corner] = plant(depth-1, next)
		}
	}
	return q
}

func countQuads(q *quad, sum *uint64) uint64 {
	*sum = mixed(*sum, q.number[0])
	quads := uint64(1)
	for _, child := range q.corner {
		if child != nil {
			quads += countQuads(child, sum)
		}
	}
	return quads
}

// quads: a deep quad tree that stays, and many shallow ones that are made and dropped.
func quads(tiny bool) uint64 {
	const shallow = 3
	depth, trees := 10, 400_000
	if tiny {
		depth, trees = 5, 400
	}
	quadsOf := func(depth int) uint64 { return (uint64(4)<<(2*depth) - 1) / 3 }
	next, sum := uint32(0), uint64(0)
	kept := plant(depth, &next)
	for i := 0; i < trees; i++ {
		require(countQuads(plant(shallow, &next), &sum) == quadsOf(shallow), "a shallow tree is whole")
	}
	require(countQuads(kept, &sum) == quadsOf(depth), "the tree that stays is whole")
	return sum
}
