package main

import (
	"math"
	"sync/atomic"
)

const (
	sphereCount = 64
	reflections = 4
	mirror      = 0.25 // what a reflection takes of the colour
	ambient     = 0.125
	nearest     = 1e-6 // hits that are nearer are the surface itself
)

var (
	sky = vector{0.5, 0.625, 0.75}
	// light is where the light comes from; of length 1.
	light = vector{0.48, 0.8, -0.36}
)

// vector: products are converted before they are added, since a processor may round both at once otherwise.
type vector struct{ x, y, z float64 }

func (a vector) dot(b vector) float64 {
	return float64(a.x*b.x) + float64(a.y*b.y) + float64(a.z*b.z)
}

func (a vector) minus(b vector) vector { return vector{a.x - b.x, a.y - b.y, a.z - b.z} }

// plus is a and so much of b.
func (a vector) plus(b vector, much float64) vector {
	return vector{a.x + float64(much*b.x), a.y + float64(much*b.y), a.z + float64(much*b.z)}
}

func (a vector) times(much float64) vector { return vector{a.x * much, a.y * much, a.z * much} }

func (a vector) unit() vector {
	length := math.Sqrt(a.dot(a))
	return vector{a.x / length, a.y / length, a.z / length}
}

// object is the vector on the heap.
func (a vector) object() *vector { return &vector{a.x, a.y, a.z} }

type ray struct{ origin, direction *vector }

type meeting struct {
	sphere   *sphere
	point    *vector
	distance float64
}

type sphere struct {
	centre, colour *vector
	radius         float64
}

// scene: the spheres, the size of the picture, and its next row.
type scene struct {
	spheres       *[sphereCount]*sphere
	width, height int
	next          atomic.Int64
}

// render: a ray tracer whose vectors, rays and hits are objects. Mutators take rows of the picture one by one.
func render(what chosen) uint64 {
	s := &scene{spheres: newSpheres(), width: 1280, height: 960}
	if what.tiny {
		s.width, s.height = 32, 24
	}
	picture := make([][]byte, s.height)
	mutate(what.threads, func(int) struct{} {
		for row := int(s.next.Add(1)) - 1; row < s.height; row = int(s.next.Add(1)) - 1 {
			picture[row] = s.row(row)
		}
		return struct{}{}
	})
	sum := uint64(0)
	for _, points := range picture {
		sum = chained(sum, hashOf(points))
	}
	return sum
}

// newSpheres are the spheres; the first is the ground.
func newSpheres() *[sphereCount]*sphere {
	random := random(9000)
	part := func() float64 { return float64(random.below(1024)) / 1024 }
	spheres := new([sphereCount]*sphere)
	for i := range spheres {
		centre, radius := &vector{0, -1000, 0}, 999.0
		if i > 0 {
			centre.x = 8*part() - 4
			centre.y = 3*part() - 1
			centre.z = 8*part() + 2
			radius = 0.25 + 0.5*part()
		}
		spheres[i] = &sphere{centre, &vector{part(), part(), part()}, radius}
	}
	return spheres
}

// row is a row of the picture, three bytes a point.
func (s *scene) row(row int) []byte {
	points := make([]byte, 3*s.width)
	for column := 0; column < s.width; column++ {
		across := (float64(column)+0.5)/float64(s.width) - 0.5
		up := 0.5 - (float64(row)+0.5)/float64(s.height)
		seen := newRay(vector{0, 0.5, -5}, vector{2 * across, 1.5 * up, 1}.unit())
		colour := s.colour(seen, reflections)
		point := points[3*column : 3*column+3]
		point[0], point[1], point[2] = byte(colour.x*255), byte(colour.y*255), byte(colour.z*255)
	}
	return points
}

// newRay is not inlined, so that the ray and its vectors are on the heap.
//
//go:noinline
func newRay(origin, direction vector) *ray {
	return &ray{origin.object(), direction.object()}
}

// colour is what is seen along a ray.
func (s *scene) colour(along *ray, reflections int) *vector {
	hit := s.first(along)
	if hit == nil {
		return sky.object()
	}
	point := *hit.point
	normal := point.minus(*hit.sphere.centre).unit()
	bright := 0.0
	if s.first(newRay(point, light)) == nil {
		if towards := normal.dot(light); towards > 0 {
			bright = towards
		}
	}
	own := hit.sphere.colour.times(ambient + float64((1-ambient)*bright))
	if reflections == 0 {
		return own.object()
	}
	direction := *along.direction
	turned := direction.plus(normal, -2*direction.dot(normal))
	other := s.colour(newRay(point, turned.unit()), reflections-1)
	return own.times(1-mirror).plus(*other, mirror).object()
}

// first is the first hit of a ray, or nil. Each that is nearer than those before is an object.
func (s *scene) first(along *ray) *meeting {
	origin, direction := *along.origin, *along.direction
	var hit *meeting
	for _, sphere := range s.spheres {
		from := origin.minus(*sphere.centre)
		along := from.dot(direction)
		inside := float64(along*along) - (from.dot(from) - float64(sphere.radius*sphere.radius))
		if inside < 0 {
			continue
		}
		distance := -along - math.Sqrt(inside)
		if distance <= nearest || hit != nil && hit.distance <= distance {
			continue
		}
		hit = &meeting{sphere, origin.plus(direction, distance).object(), distance}
	}
	return hit
}
