package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode/utf8"
)

// documentPlaces are documents of Debian's packages; the first that is there is read.
var documentPlaces = []string{
	"/usr/share/mime/packages/freedesktop.org.xml",
	"/usr/share/xml/iso-codes/iso_639-3.xml",
}

// source is a document that was read once and is well-formed. Its text is outside of the heap.
type source struct {
	text []byte
	// How many elements are read at most, from the first on, with all that they are in.
	most int
	// How many elements are read.
	elements int
}

// readSource reads the document for a run.
func readSource(what chosen) (*source, error) {
	path := what.input
	for i := 0; path == "" && i < len(documentPlaces); i++ {
		if found, err := os.Stat(documentPlaces[i]); err == nil && found.Mode().IsRegular() {
			path = documentPlaces[i]
		}
	}
	if path == "" {
		return nil, fmt.Errorf("xml: neither %s is there: install the package shared-mime-info or iso-codes, or name "+
			"a document with --input", strings.Join(documentPlaces, " nor "))
	}
	read, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &source{most: math.MaxInt}
	if what.tiny {
		s.most = 300
	}
	if s.text, err = outside[byte](len(read)); err != nil {
		return nil, err
	}
	copy(s.text, read)
	if err := s.count(); err != nil {
		return nil, fmt.Errorf("%s: not well-formed: %w; name another with --input", path, err)
	}
	return s, nil
}

// count counts the elements, and finds out whether the document is well-formed.
func (s *source) count() error {
	if !utf8.Valid(s.text) {
		return errors.New("it is not UTF-8")
	}
	decoder := s.decoder()
	for {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	parts, depth, roots := s.parts(), 0, 0
	for {
		token, text := parts.next()
		switch token.(type) {
		case xml.StartElement:
			if depth == 0 {
				roots++
			}
			depth++
			s.elements++
		case xml.EndElement:
			depth--
		case nil:
			if text != nil {
				if depth == 0 {
					return fmt.Errorf("text outside of an element: %q", text)
				}
				continue
			}
			if roots != 1 {
				return fmt.Errorf("%d outermost elements, and there is to be one", roots)
			}
			return nil
		}
	}
}

func (s *source) decoder() *xml.Decoder {
	decoder := xml.NewDecoder(bytes.NewReader(s.text))
	// It is UTF-8, whatever it says.
	decoder.CharsetReader = func(_ string, text io.Reader) (io.Reader, error) { return text, nil }
	return decoder
}

// parts gives the parts of a document one after the other. Entities are those that XML defines itself, and white space
// alone is no text. Comments, instructions and the document type are passed over, also within a text.
type parts struct {
	decoder        *xml.Decoder
	elements, most int
	text           []byte
	// What comes after the text.
	held xml.Token
	over bool
}

func (s *source) parts() *parts {
	return &parts{decoder: s.decoder(), most: s.most}
}

// next is the beginning or the end of an element, or a text, which is valid until the next call; neither at the end.
func (p *parts) next() (token xml.Token, text []byte) {
	if p.held != nil {
		token, p.held = p.held, nil
		return token, nil
	}
	p.text = p.text[:0]
	for {
		token = p.raw()
		switch part := token.(type) {
		case xml.CharData:
			p.text = append(p.text, part...)
			continue
		case xml.StartElement:
			if p.elements == p.most {
				p.skip()
				token = nil
			} else {
				p.elements++
			}
		case xml.EndElement, nil:
		default:
			continue
		}
		if len(bytes.TrimSpace(p.text)) > 0 {
			p.held = token
			return nil, p.text
		}
		if token != nil || p.over {
			return token, nil
		}
		p.text = p.text[:0]
	}
}

// skip passes over the rest of an element.
func (p *parts) skip() {
	for depth := 1; depth > 0; {
		switch p.raw().(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		case nil:
			return
		}
	}
}

func (p *parts) raw() xml.Token {
	token, err := p.decoder.RawToken()
	if err != nil && err != io.EOF {
		panic("it was read before: " + err.Error())
	}
	p.over = token == nil
	return token
}

// written is the value of an attribute: white space in it is spaces.
func written(value string) string {
	if strings.ContainsAny(value, "\t\n") {
		return strings.NewReplacer("\t", " ", "\n", " ").Replace(value)
	}
	return value
}
