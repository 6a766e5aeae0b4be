package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// textPlaces: where Debian has texts.
var textPlaces = []string{"/usr/share/common-licenses", "/usr/share/doc"}

// largest is the length of one text in bytes, at most.
const largest = 512 << 10

// text: its bytes are outside of the heap.
type text struct {
	name  string
	bytes []byte
}

// selection: the texts for a run, in the order of their paths, each content once, up to a bound.
type selection struct {
	texts []text
	// What texts may still be put in, and how much that was at first.
	room []byte
	most int
	seen map[content]bool
	// What is used for each file.
	buffer bytes.Buffer
	zipped gzip.Reader
}

type content struct {
	length int
	hash   uint64
}

// readTexts reads the texts for a run; an error when there are too few.
func readTexts(what chosen) ([]text, error) {
	places, least, most := textPlaces, 4<<20, 12<<20
	if what.tiny {
		least, most = 64<<10, 192<<10
	}
	if what.input != "" {
		places, least = []string{what.input}, 1
	}
	room, err := outside[byte](most)
	if err != nil {
		return nil, err
	}
	s := &selection{room: room, most: most, seen: map[content]bool{}}
	for _, place := range places {
		if !s.walk(place) {
			break
		}
	}
	if found := most - len(s.room); found < least {
		return nil, fmt.Errorf("index: %d bytes of text in %s, and %d are needed: install packages that bring "+
			"documentation (git and python3-doc do), or name a directory with --input",
			found, strings.Join(places, " and "), least)
	}
	return s.texts, nil
}

// walk goes through all files below a directory, without following links, until there is enough.
func (s *selection) walk(directory string) bool {
	// What can be read is read.
	entries, _ := os.ReadDir(directory)
	for _, entry := range entries {
		path := strings.TrimSuffix(directory, "/") + "/" + entry.Name()
		switch {
		case entry.IsDir():
			if !s.walk(path) {
				return false
			}
		case entry.Type().IsRegular() && s.read(path):
			s.add(path)
			if len(s.room) < s.most/16 {
				return false
			}
		}
	}
	return true
}

// read reads a file into the buffer, if it is a text, plain or `.gz`.
func (s *selection) read(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	var from io.Reader = file
	if filepath.Ext(path) == ".gz" {
		if s.zipped.Reset(file) != nil {
			return false
		}
		from = &s.zipped
	}
	s.buffer.Reset()
	length, err := s.buffer.ReadFrom(io.LimitReader(from, largest+1))
	return err == nil && 1 <= length && length <= largest && bytes.IndexByte(s.buffer.Bytes(), 0) < 0
}

// add adds what is in the buffer, if there is room for it and it is new.
func (s *selection) add(path string) {
	read := s.buffer.Bytes()
	key := content{len(read), hashOf(read)}
	if len(read) > len(s.room) || s.seen[key] {
		return
	}
	s.seen[key] = true
	length := copy(s.room, read)
	s.texts = append(s.texts, text{path, s.room[:length:length]})
	s.room = s.room[length:]
}

// isWord tells letters and digits of ASCII.
var isWord = func() (is [256]bool) {
	for _, letter := range "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		is[letter] = true
	}
	return is
}()

// longest is the length of a word, at most; the shortest has two letters.
const longest = 32

// nextWord is the next word of a text from a place on, and where it ends; no word when there is none.
func nextWord(text []byte, from int) (word []byte, end int) {
	for from < len(text) {
		if !isWord[text[from]] {
			from++
			continue
		}
		end = from + 1
		for end < len(text) && isWord[text[end]] {
			end++
		}
		if length := end - from; 2 <= length && length <= longest {
			return text[from:end], end
		}
		from = end
	}
	return nil, from
}
