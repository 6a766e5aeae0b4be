package main

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// message is the length of a message in bytes.
const message = 4096

// lastWords and lastBytes keep arrays on the heap that the compiler would put on the stack.
var (
	lastWords []uint32
	lastBytes []byte
)

func freshWords(length int) []uint32 {
	lastWords = make([]uint32, length)
	return lastWords
}

func freshBytes(length int) []byte {
	lastBytes = make([]byte, length)
	return lastBytes
}

// cipher: messages that are enciphered and deciphered with ChaCha20 (RFC 8439), arrays of numbers that die young.
func cipher(tiny bool) uint64 {
	messages := uint32(40_000)
	if tiny {
		messages = 40
	}
	random, sum := uint64(7000), uint64(0)
	for number := uint32(0); number < messages; number++ {
		key := freshWords(8)
		for i := range key {
			random = random*6364136223846793005 + 1442695040888963407
			key[i] = uint32(random >> 33)
		}
		plain := freshBytes(message)
		for i := range plain {
			plain[i] = byte(uint32(i) ^ number)
		}
		sent := ciphered(key, plain, number)
		for at := 0; at < message; at += 8 {
			sum = sum*31 + binary.LittleEndian.Uint64(sent[at:])
		}
		require(bytes.Equal(ciphered(key, sent, number), plain), "what is read is what was sent")
	}
	return sum
}

// ciphered is a text with the key stream added.
func ciphered(key []uint32, text []byte, nonce uint32) []byte {
	result := freshBytes(message)
	for block := 0; block < message/64; block++ {
		stream := freshWords(16)
		fill(stream, key, uint32(1+block), nonce)
		part := result[64*block : 64*block+64]
		copy(part, text[64*block:])
		for i, word := range stream {
			place := part[4*i : 4*i+4]
			binary.LittleEndian.PutUint32(place, binary.LittleEndian.Uint32(place)^word)
		}
	}
	return result
}

// fill makes a block of the key stream (RFC 8439, section 2.3), in local variables, which may be registers.
func fill(stream, key []uint32, counter, nonce uint32) {
	_, _ = stream[15], key[7]
	const c0, c1, c2, c3 = 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574
	x0, x1, x2, x3 := uint32(c0), uint32(c1), uint32(c2), uint32(c3)
	x4, x5, x6, x7 := key[0], key[1], key[2], key[3]
	x8, x9, x10, x11 := key[4], key[5], key[6], key[7]
	x12, x13, x14, x15 := counter, uint32(0), uint32(0), nonce
	for round := 0; round < 10; round++ {
		x0, x4, x8, x12 = quarter(x0, x4, x8, x12)
		x1, x5, x9, x13 = quarter(x1, x5, x9, x13)
		x2, x6, x10, x14 = quarter(x2, x6, x10, x14)
		x3, x7, x11, x15 = quarter(x3, x7, x11, x15)
		x0, x5, x10, x15 = quarter(x0, x5, x10, x15)
		x1, x6, x11, x12 = quarter(x1, x6, x11, x12)
		x2, x7, x8, x13 = quarter(x2, x7, x8, x13)
		x3, x4, x9, x14 = quarter(x3, x4, x9, x14)
	}
	stream[0], stream[1], stream[2], stream[3] = x0+c0, x1+c1, x2+c2, x3+c3
	stream[4], stream[5], stream[6], stream[7] = x4+key[0], x5+key[1], x6+key[2], x7+key[3]
	stream[8], stream[9], stream[10], stream[11] = x8+key[4], x9+key[5], x10+key[6], x11+key[7]
	stream[12], stream[13], stream[14], stream[15] = x12+counter, x13, x14, x15+nonce
}

// quarter is a quarter round (RFC 8439, section 2.1).
func quarter(a, b, c, d uint32) (uint32, uint32, uint32, uint32) {
	a += b
	d = bits.RotateLeft32(d^a, 16)
	c += d
	b = bits.RotateLeft32(b^c, 12)
	a += b
	d = bits.RotateLeft32(d^a, 8)
	c += d
	b = bits.RotateLeft32(b^c, 7)
	return a, b, c, d
}
