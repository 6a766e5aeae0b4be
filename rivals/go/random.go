package main

// random: a linear congruential generator (Knuth's multiplier), of which the upper half is used.
type random uint64

// next is the next number of 31 bits.
func (r *random) next() uint32 {
	*r = *r*6364136223846793005 + 1442695040888963407
	return uint32(*r >> 33)
}

// below is the next number below a bound.
func (r *random) below(bound uint32) uint32 { return r.next() % bound }

// scattered is a number scattered over 64 bits (the finalizer of splitmix64), so that sums of them tell sets apart.
func scattered(number uint64) uint64 {
	mixed := number + 0x9e3779b97f4a7c15
	mixed = (mixed ^ mixed>>30) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ mixed>>27) * 0x94d049bb133111eb
	return mixed ^ mixed>>31
}

// chained: one more number of a sequence, in which order does count.
func chained(sum, number uint64) uint64 { return sum*31 + number }

const (
	// noBytes is the number of no bytes.
	noBytes  = 0xcbf29ce484222325
	fnvPrime = 0x100000001b3
)

// hashOn is the number of some bytes that follow those which a number was made of (FNV-1a).
func hashOn[T string | []byte](hash uint64, bytes T) uint64 {
	for i := 0; i < len(bytes); i++ {
		hash = (hash ^ uint64(bytes[i])) * fnvPrime
	}
	return hash
}

// hashOf is the number of some bytes.
func hashOf[T string | []byte](bytes T) uint64 { return hashOn(noBytes, bytes) }
