//! A ray tracer: all processors are busy, and nearly every object dies within its pixel.
//!
//! Vectors, rays and hits are objects, made where they are needed and never changed. Threads take rows of the picture
//! one by one. The scene lives, and so do the finished rows.

use std::sync::atomic::{AtomicUsize, Ordering};

use gleaner::raw::Address;
use gleaner::{Handle, Heap, Mutator, OutOfMemory};

use super::mutators::Mutators;
use super::objects::{
    Allocated, Code, Numbers, Record, Slots, address, frame, object, shared, value,
};
use super::random::{Random, chained, hash_of};
use super::{Facts, Prepared, Scale, Workload, failed};

const SPHERES: usize = 64;
/// How often a ray is reflected.
const REFLECTIONS: u32 = 4;
/// What a reflection takes of the colour.
const MIRROR: f64 = 0.25;
const AMBIENT: f64 = 0.125;
const SKY: [f64; 3] = [0.5, 0.625, 0.75];
/// Where the light comes from; of length 1.
const LIGHT: [f64; 3] = [0.48, 0.8, -0.36];
/// Hits that are nearer than this are the surface itself.
const NEAREST: f64 = 1e-6;

struct Render<F> {
    /// Three numbers.
    vector: Record<F, 0, 24>,
    /// Its origin and its direction.
    ray: Record<F, 2, 0>,
    /// The sphere, the point; the distance.
    hit: Record<F, 2, 8>,
    /// The centre, the colour; the radius.
    sphere: Record<F, 2, 8>,
    slots: Slots<F>,
    bytes: Numbers<F, u8>,
    width: usize,
    height: usize,
}

/// 1280 by 960 points, or 32 by 24.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    Ok(Box::new(Render::<F> {
        vector: Record::register(heap).map_err(failed)?,
        ray: Record::register(heap).map_err(failed)?,
        hit: Record::register(heap).map_err(failed)?,
        sphere: Record::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        bytes: Numbers::register(heap).map_err(failed)?,
        width: scale.of(1280, 32),
        height: scale.of(960, 24),
    }))
}

impl<F: Code> Workload for Render<F> {
    /// A number made of the picture.
    fn run(
        &self,
        mutator: &mut Mutator,
        mutators: &Mutators,
        _: &mut Facts,
    ) -> Result<u64, OutOfMemory> {
        let spheres = self.slots.fresh(mutator, SPHERES)?;
        let spheres = shared(mutator, spheres);
        self.fill(mutator, &spheres)?;
        let picture = self.slots.fresh(mutator, self.height)?;
        let picture = shared(mutator, picture);
        let next = AtomicUsize::new(0);
        mutators.run(mutator, |mutator, _| {
            loop {
                let row = next.fetch_add(1, Ordering::Relaxed);
                if row >= self.height {
                    return Ok(());
                }
                let points = self.row(mutator, &spheres, row)?;
                self.slots
                    .set(mutator, address(picture.get_raw()), row, points)?;
            }
        })?;
        let mut sum = 0;
        for row in 0..self.height {
            let points = self.slots.get(mutator, address(picture.get_raw()), row);
            sum = chained(sum, self.bytes.look(mutator, points, hash_of));
        }
        Ok(sum)
    }
}

impl<F: Code> Render<F> {
    fn vector(&self, mutator: &mut Mutator, parts: [f64; 3]) -> Allocated {
        let vector = self.vector.fresh(mutator)?;
        for (index, part) in parts.into_iter().enumerate() {
            self.vector.set_long(vector, index, part.to_bits());
        }
        Ok(vector)
    }

    fn parts(&self, vector: Address) -> [f64; 3] {
        [0, 1, 2].map(|index| f64::from_bits(self.vector.long(vector, index)))
    }

    /// The spheres; the first is the ground.
    fn fill(&self, mutator: &mut Mutator, spheres: &Handle) -> Result<(), OutOfMemory> {
        let mut random = Random::new(9000);
        let mut part = move || f64::from(random.below(1024)) / 1024.0;
        for index in 0..SPHERES {
            let (centre, radius) = if index == 0 {
                ([0.0, -1000.0, 0.0], 999.0)
            } else {
                let centre = [8.0 * part() - 4.0, 3.0 * part() - 1.0, 8.0 * part() + 2.0];
                (centre, 0.25 + 0.5 * part())
            };
            let colour = [part(), part(), part()];
            let centre = self.vector(mutator, centre)?;
            frame(
                mutator,
                [centre, Address::NULL],
                |mutator, [centre, paint]| {
                    paint.set(value(self.vector(mutator, colour)?));
                    let sphere = self.sphere.fresh(mutator)?;
                    self.sphere.set(mutator, sphere, 0, object(centre));
                    self.sphere.set(mutator, sphere, 1, object(paint));
                    self.sphere.set_long(sphere, 0, radius.to_bits());
                    self.slots
                        .set(mutator, address(spheres.get_raw()), index, sphere)
                },
            )?;
        }
        Ok(())
    }

    /// A row of the picture, three bytes a point.
    fn row(&self, mutator: &mut Mutator, spheres: &Handle, row: usize) -> Allocated {
        let points = self.bytes.fresh(mutator, 3 * self.width)?;
        frame(mutator, [points], |mutator, [points]| {
            for column in 0..self.width {
                let across = (column as f64 + 0.5) / self.width as f64 - 0.5;
                let up = 0.5 - (row as f64 + 0.5) / self.height as f64;
                let towards = unit([2.0 * across, 1.5 * up, 1.0]);
                let ray = self.new_ray(mutator, [0.0, 0.5, -5.0], towards)?;
                let colour = self.colour(mutator, spheres, ray, REFLECTIONS)?;
                let colour = self.parts(colour).map(|part| (part * 255.0) as u8);
                self.bytes
                    .write(mutator, object(points), 3 * column, &colour)?;
            }
            Ok(object(points))
        })
    }

    fn new_ray(&self, mutator: &mut Mutator, origin: [f64; 3], towards: [f64; 3]) -> Allocated {
        let origin = self.vector(mutator, origin)?;
        frame(
            mutator,
            [origin, Address::NULL],
            |mutator, [origin, direction]| {
                direction.set(value(self.vector(mutator, towards)?));
                let ray = self.ray.fresh(mutator)?;
                self.ray.set(mutator, ray, 0, object(origin));
                self.ray.set(mutator, ray, 1, object(direction));
                Ok(ray)
            },
        )
    }

    /// What is seen along a ray: a vector.
    fn colour(
        &self,
        mutator: &mut Mutator,
        spheres: &Handle,
        ray: Address,
        reflections: u32,
    ) -> Allocated {
        frame(mutator, [ray, Address::NULL], |mutator, [ray, hit]| {
            hit.set(value(self.nearest(mutator, spheres, object(ray))?));
            if object(hit) == Address::NULL {
                return self.vector(mutator, SKY);
            }
            let point = self.parts(self.hit.get(mutator, object(hit), 1));
            let sphere = self.hit.get(mutator, object(hit), 0);
            let centre = self.parts(self.sphere.get(mutator, sphere, 0));
            let normal = unit(minus(point, centre));
            let shadow = self.new_ray(mutator, point, LIGHT)?;
            let lit = self.nearest(mutator, spheres, shadow)? == Address::NULL;
            let light = if lit {
                dot(normal, LIGHT).max(0.0)
            } else {
                0.0
            };
            let sphere = self.hit.get(mutator, object(hit), 0);
            let paint = self.parts(self.sphere.get(mutator, sphere, 1));
            let own = paint.map(|part| part * (AMBIENT + (1.0 - AMBIENT) * light));
            if reflections == 0 {
                return self.vector(mutator, own);
            }
            let direction = self.parts(self.ray.get(mutator, object(ray), 1));
            let turned = plus(direction, normal, -2.0 * dot(direction, normal));
            let reflected = self.new_ray(mutator, point, unit(turned))?;
            let other = self.colour(mutator, spheres, reflected, reflections - 1)?;
            let other = self.parts(other);
            let mixed = [0, 1, 2].map(|part| own[part] * (1.0 - MIRROR) + other[part] * MIRROR);
            self.vector(mutator, mixed)
        })
    }

    /// The first hit of a ray, or null. Each that is nearer than those before is an object.
    fn nearest(&self, mutator: &mut Mutator, spheres: &Handle, ray: Address) -> Allocated {
        let origin = self.parts(self.ray.get(mutator, ray, 0));
        let direction = self.parts(self.ray.get(mutator, ray, 1));
        frame(mutator, [Address::NULL], |mutator, [hit]| {
            for index in 0..SPHERES {
                let sphere = self.slots.get(mutator, address(spheres.get_raw()), index);
                let centre = self.parts(self.sphere.get(mutator, sphere, 0));
                let radius = f64::from_bits(self.sphere.long(sphere, 0));
                let Some(distance) = distance(minus(origin, centre), direction, radius) else {
                    continue;
                };
                let before = object(hit);
                if before != Address::NULL && f64::from_bits(self.hit.long(before, 0)) <= distance {
                    continue;
                }
                let point = self.vector(mutator, plus(origin, direction, distance))?;
                frame(mutator, [point], |mutator, [point]| {
                    hit.set(value(self.hit.fresh(mutator)?));
                    let sphere = self.slots.get(mutator, address(spheres.get_raw()), index);
                    self.hit.set(mutator, object(hit), 0, sphere);
                    self.hit.set(mutator, object(hit), 1, object(point));
                    self.hit.set_long(object(hit), 0, distance.to_bits());
                    Ok(())
                })?;
            }
            Ok(object(hit))
        })
    }
}

/// How far along a direction of length 1 a sphere about the origin is met first.
fn distance(from: [f64; 3], direction: [f64; 3], radius: f64) -> Option<f64> {
    let along = dot(from, direction);
    let inside = along * along - (dot(from, from) - radius * radius);
    if inside < 0.0 {
        return None;
    }
    let near = -along - inside.sqrt();
    (near > NEAREST).then_some(near)
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn minus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|part| a[part] - b[part])
}

/// The sum of `a` and `much` times `b`.
fn plus(a: [f64; 3], b: [f64; 3], much: f64) -> [f64; 3] {
    [0, 1, 2].map(|part| a[part] + much * b[part])
}

fn unit(a: [f64; 3]) -> [f64; 3] {
    let length = dot(a, a).sqrt();
    a.map(|part| part / length)
}
