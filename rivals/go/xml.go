package main

import (
	"encoding/xml"
	"runtime"
	"runtime/debug"
	"strings"
)

const (
	namePlaces = 256
	bufferSize = 4096
)

// element: an element, or a text, which is its content.
type element struct {
	next, parent *element
	content      string
	attributes   *attribute
	first, last  *element
	isElement    bool
	children     uint32
}

type attribute struct {
	next        *attribute
	name, value string
}

type name struct {
	next    *name
	letters string
}

// names has each name once.
type names [namePlaces]*name

// newNames is not inlined, so that the table is on the heap.
//
//go:noinline
func newNames() *names { return new(names) }

type buffer struct {
	next  *buffer
	bytes *[bufferSize]byte
	used  uint32
}

// prepareXML: a real XML document is read into objects, transformed by a small style sheet, and written again, several
// times. Each mutator does all of it.
func prepareXML(what chosen) (work, error) {
	source, err := readSource(what)
	if err != nil {
		return nil, err
	}
	passes := 8
	if what.tiny {
		passes = 2
	}
	debug.FreeOSMemory()
	return func(*facts) uint64 {
		return added(mutate(what.threads, func(int) uint64 {
			sum := uint64(0)
			for pass := 0; pass < passes; pass++ {
				sum = chained(sum, source.pass())
			}
			return sum
		}))
	}, nil
}

func (s *source) pass() uint64 {
	tree := s.tree()
	other := tree.transformed()
	hash := other.hash()
	require(tree.elements(nil) == s.elements, "the tree is whole")
	runtime.KeepAlive(other)
	return hash
}

// elements is how many elements a tree has, in which each node knows its parent.
func (e *element) elements(parent *element) int {
	require(e.parent == parent, "a node knows its parent")
	elements := 0
	if e.isElement {
		elements = 1
	}
	for child := e.first; child != nil; child = child.next {
		elements += child.elements(e)
	}
	return elements
}

// add makes a node with a content, as the last child of another unless that is nil.
func (e *element) add(content string, isElement bool) *element {
	child := &element{content: content, isElement: isElement}
	if e != nil {
		e.append(child)
	}
	return child
}

func (e *element) append(child *element) {
	child.parent = e
	if e.last == nil {
		e.first = child
	} else {
		e.last.next = child
	}
	e.last = child
	e.children++
}

// tree is the tree of a document.
func (s *source) tree() *element {
	var at, root *element
	table := newNames()
	parts := s.parts()
	for {
		token, text := parts.next()
		switch part := token.(type) {
		case xml.StartElement:
			at = at.add(table.name(part.Name), true)
			if root == nil {
				root = at
			}
			var last *attribute
			for _, attr := range part.Attr {
				// The value is a fresh string already.
				fresh := &attribute{name: table.name(attr.Name), value: written(attr.Value)}
				if last == nil {
					at.attributes = fresh
				} else {
					last.next = fresh
				}
				last = fresh
			}
		case xml.EndElement:
			at = at.parent
		case nil:
			if text == nil {
				return root
			}
			at.add(string(text), false)
		}
	}
}

// name is the letters of a name, the same string for the same name.
func (t *names) name(of xml.Name) string {
	hash := uint64(noBytes)
	if of.Space != "" {
		hash = hashOn(hashOn(hash, of.Space), ":")
	}
	place := hashOn(hash, of.Local) % namePlaces
	for n := t[place]; n != nil; n = n.next {
		if matches(n.letters, of) {
			return n.letters
		}
	}
	letters := strings.Clone(of.Local)
	if of.Space != "" {
		letters = of.Space + ":" + of.Local
	}
	t[place] = &name{t[place], letters}
	return letters
}

func matches(letters string, name xml.Name) bool {
	if name.Space == "" {
		return letters == name.Local
	}
	space := len(name.Space)
	return len(letters) == space+1+len(name.Local) && letters[:space] == name.Space && letters[space] == ':' &&
		letters[space+1:] == name.Local
}

// transformed is the transformed tree of a tree: attributes are elements, texts upper case, elements sorted by name.
func (e *element) transformed() *element {
	var nobody *element
	if !e.isElement {
		return nobody.add(upper(e.content), false)
	}
	fresh := nobody.add(e.content, true)
	for attribute := e.attributes; attribute != nil; attribute = attribute.next {
		fresh.add(attribute.name, true).add(attribute.value, false)
	}
	children := newChildren(e.children)
	for child := e.first; child != nil; child = child.next {
		children = append(children, child)
	}
	sortByName(children)
	for _, child := range children {
		fresh.append(child.transformed())
	}
	return fresh
}

// newChildren is not inlined, so that the array is on the heap.
//
//go:noinline
func newChildren(room uint32) []*element { return make([]*element, 0, room) }

// before orders elements by name, behind texts.
func (e *element) before(other *element) bool {
	if e.isElement && other.isElement {
		return e.content < other.content
	}
	return !e.isElement && other.isElement
}

// sortByName sorts as sort.Stable does, but without calls through an interface.
func sortByName(children []*element) {
	if len(children) <= 20 {
		for i := 1; i < len(children); i++ {
			for j := i; j > 0 && children[j].before(children[j-1]); j-- {
				children[j], children[j-1] = children[j-1], children[j]
			}
		}
		return
	}
	middle := len(children) / 2
	sortByName(children[:middle])
	sortByName(children[middle:])
	if !children[middle].before(children[middle-1]) {
		return
	}
	left, right := append([]*element(nil), children[:middle]...), children[middle:]
	for i := range children {
		switch {
		case len(left) == 0:
			return
		case len(right) > 0 && right[0].before(left[0]):
			children[i], right = right[0], right[1:]
		default:
			children[i], left = left[0], left[1:]
		}
	}
}

// upper is a fresh text in upper case.
func upper(text string) string {
	var fresh strings.Builder
	fresh.Grow(len(text))
	var piece [128]byte
	for text != "" {
		length := copy(piece[:], text)
		text = text[length:]
		for i, letter := range piece[:length] {
			if 'a' <= letter && letter <= 'z' {
				piece[i] = letter - ('a' - 'A')
			}
		}
		fresh.Write(piece[:length])
	}
	return fresh.String()
}

// hash is the number of a tree as it is written.
func (e *element) hash() uint64 {
	first := newBuffer()
	out := &writer{first}
	out.element(e)
	hash := uint64(noBytes)
	for b := first; b != nil; b = b.next {
		hash = hashOn(hash, b.bytes[:b.used])
	}
	return hash
}

func newBuffer() *buffer {
	bytes := new([bufferSize]byte)
	return &buffer{bytes: bytes}
}

// writer writes to the last buffer of a list.
type writer struct{ last *buffer }

func (w *writer) element(e *element) {
	if !e.isElement {
		w.escaped(e.content)
		return
	}
	w.write("<")
	w.escaped(e.content)
	w.write(">")
	for child := e.first; child != nil; child = child.next {
		w.element(child)
	}
	w.write("</")
	w.escaped(e.content)
	w.write(">")
}

// escaped writes a name or a text, with what XML needs escaped.
func (w *writer) escaped(text string) {
	from := 0
	for i := 0; i < len(text); i++ {
		escape := ""
		switch text[i] {
		case '&':
			escape = "&amp;"
		case '<':
			escape = "&lt;"
		case '>':
			escape = "&gt;"
		default:
			continue
		}
		w.write(text[from:i])
		w.write(escape)
		from = i + 1
	}
	w.write(text[from:])
}

func (w *writer) write(text string) {
	for text != "" {
		last := w.last
		if last.used == bufferSize {
			w.last = newBuffer()
			last.next = w.last
			continue
		}
		length := copy(last.bytes[last.used:], text)
		last.used += uint32(length)
		text = text[length:]
	}
}
