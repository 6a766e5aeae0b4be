//! A ray tracer: all processors are busy, and nearly every object dies within its pixel.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::context::{Context, Mode};
use crate::handles::Handle;
use crate::mutators;
use crate::object::References;
use crate::records::Record;
use crate::shared::Scale;
use crate::shared::random::{Random, chained, hash_of};

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

/// Three numbers.
const VECTOR: Record = Record::new(0, 24);
/// Its origin and its direction.
const RAY: Record = Record::new(2, 0);
/// The sphere, the point; the distance.
const HIT: Record = Record::new(2, 8);
/// The centre, the colour; the radius.
const SPHERE: Record = Record::new(2, 8);

/// Runs once, 1280 by 960 points, or 32 by 24; a number made of the picture.
pub fn render<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    scale: &Scale,
) -> u64 {
    let (width, height) = scale.of((1280, 960), (32, 24));
    let spheres = &Handle::new(context.references(SPHERES));
    fill(context, spheres);
    let picture = Handle::new(context.references(height));
    let next = AtomicUsize::new(0);
    mutators::run(context, threads, |context, _| {
        loop {
            let row = next.fetch_add(1, Ordering::Relaxed);
            if row >= height {
                return;
            }
            let points = new_row(context, spheres, [width, height], row);
            context.set_element(picture.get(), row, points);
        }
    });
    (0..height).fold(0, |sum, row| {
        let points = context.element(picture.get(), row);
        chained(sum, context.look(points, hash_of))
    })
}

fn new_vector<R: References, M: Mode>(context: &mut Context<R, M>, parts: [f64; 3]) -> usize {
    let vector = VECTOR.fresh(context);
    for (index, part) in parts.into_iter().enumerate() {
        VECTOR.set_long(context, vector, index, part.to_bits());
    }
    vector
}

fn parts<R: References, M: Mode>(context: &Context<R, M>, vector: usize) -> [f64; 3] {
    [0, 1, 2].map(|index| f64::from_bits(VECTOR.long(context, vector, index)))
}

/// The spheres; the first is the ground.
fn fill<R: References, M: Mode>(context: &mut Context<R, M>, spheres: &Handle) {
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
        let centre = new_vector(context, centre);
        context.with_roots([centre, 0], |context, [centre, paint]| {
            paint.set(new_vector(context, colour));
            let sphere = SPHERE.fresh(context);
            context.set(sphere, 0, centre.get());
            context.set(sphere, 1, paint.get());
            SPHERE.set_long(context, sphere, 0, f64::to_bits(radius));
            context.set_element(spheres.get(), index, sphere);
        });
    }
}

/// A row of the picture, three bytes a point.
fn new_row<R: References, M: Mode>(
    context: &mut Context<R, M>,
    spheres: &Handle,
    [width, height]: [usize; 2],
    row: usize,
) -> usize {
    let points = context.bytes(3 * width);
    context.with_roots([points], |context, [points]| {
        for column in 0..width {
            let across = (column as f64 + 0.5) / width as f64 - 0.5;
            let up = 0.5 - (row as f64 + 0.5) / height as f64;
            let towards = unit([2.0 * across, 1.5 * up, 1.0]);
            let ray = new_ray(context, [0.0, 0.5, -5.0], towards);
            let colour = colour(context, spheres, ray, REFLECTIONS);
            let colour = parts(context, colour);
            context.change(points.get(), |points: &mut [u8]| {
                for (index, part) in colour.into_iter().enumerate() {
                    points[3 * column + index] = (part * 255.0) as u8;
                }
            });
        }
        points.get()
    })
}

fn new_ray<R: References, M: Mode>(
    context: &mut Context<R, M>,
    origin: [f64; 3],
    towards: [f64; 3],
) -> usize {
    let origin = new_vector(context, origin);
    context.with_roots([origin, 0], |context, [origin, direction]| {
        direction.set(new_vector(context, towards));
        let ray = RAY.fresh(context);
        context.set(ray, 0, origin.get());
        context.set(ray, 1, direction.get());
        ray
    })
}

/// What is seen along a ray: a vector.
fn colour<R: References, M: Mode>(
    context: &mut Context<R, M>,
    spheres: &Handle,
    ray: usize,
    reflections: u32,
) -> usize {
    context.with_roots([ray, 0], |context, [ray, hit]| {
        hit.set(nearest(context, spheres, ray.get()));
        if hit.get() == 0 {
            return new_vector(context, SKY);
        }
        let point = parts(context, context.get(hit.get(), 1));
        let sphere = context.get(hit.get(), 0);
        let centre = parts(context, context.get(sphere, 0));
        let normal = unit(minus(point, centre));
        let shadow = new_ray(context, point, LIGHT);
        let lit = nearest(context, spheres, shadow) == 0;
        let light = if lit {
            dot(normal, LIGHT).max(0.0)
        } else {
            0.0
        };
        let sphere = context.get(hit.get(), 0);
        let paint = parts(context, context.get(sphere, 1));
        let own = paint.map(|part| part * (AMBIENT + (1.0 - AMBIENT) * light));
        if reflections == 0 {
            return new_vector(context, own);
        }
        let direction = parts(context, context.get(ray.get(), 1));
        let turned = plus(direction, normal, -2.0 * dot(direction, normal));
        let reflected = new_ray(context, point, unit(turned));
        let other = colour(context, spheres, reflected, reflections - 1);
        let other = parts(context, other);
        let mixed = [0, 1, 2].map(|part| own[part] * (1.0 - MIRROR) + other[part] * MIRROR);
        new_vector(context, mixed)
    })
}

/// The first hit of a ray, or 0. Each that is nearer than those before is an object.
fn nearest<R: References, M: Mode>(
    context: &mut Context<R, M>,
    spheres: &Handle,
    ray: usize,
) -> usize {
    let origin = parts(context, context.get(ray, 0));
    let direction = parts(context, context.get(ray, 1));
    context.with_roots([0], |context, [hit]| {
        for index in 0..SPHERES {
            let sphere = context.element(spheres.get(), index);
            let centre = parts(context, context.get(sphere, 0));
            let radius = f64::from_bits(SPHERE.long(context, sphere, 0));
            let Some(distance) = distance(minus(origin, centre), direction, radius) else {
                continue;
            };
            let before = hit.get();
            if before != 0 && f64::from_bits(HIT.long(context, before, 0)) <= distance {
                continue;
            }
            let point = new_vector(context, plus(origin, direction, distance));
            context.with_roots([point], |context, [point]| {
                hit.set(HIT.fresh(context));
                let sphere = context.element(spheres.get(), index);
                context.set(hit.get(), 0, sphere);
                context.set(hit.get(), 1, point.get());
                HIT.set_long(context, hit.get(), 0, distance.to_bits());
            });
        }
        hit.get()
    })
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

/// `a` and so much of `b`.
fn plus(a: [f64; 3], b: [f64; 3], much: f64) -> [f64; 3] {
    [0, 1, 2].map(|part| a[part] + much * b[part])
}

fn unit(a: [f64; 3]) -> [f64; 3] {
    let length = dot(a, a).sqrt();
    a.map(|part| part / length)
}
