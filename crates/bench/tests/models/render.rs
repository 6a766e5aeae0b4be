//! `render`: the same picture, from plain vectors.

use super::random::{Random, chained, hash_of};

type Vector = [f64; 3];

const LIGHT: Vector = [0.48, 0.8, -0.36];

struct Sphere {
    centre: Vector,
    radius: f64,
    paint: Vector,
}

pub fn render() -> u64 {
    let (width, height) = (32, 24);
    let spheres = spheres();
    let mut sum = 0;
    for row in 0..height {
        let mut points = Vec::new();
        for column in 0..width {
            let across = (f64::from(column) + 0.5) / f64::from(width) - 0.5;
            let up = 0.5 - (f64::from(row) + 0.5) / f64::from(height);
            let towards = unit([2.0 * across, 1.5 * up, 1.0]);
            let colour = seen(&spheres, [0.0, 0.5, -5.0], towards, 4);
            points.extend(colour.map(|part| (part * 255.0) as u8));
        }
        sum = chained(sum, hash_of(&points));
    }
    sum
}

fn spheres() -> Vec<Sphere> {
    let mut random = Random::new(9000);
    let mut part = move || f64::from(random.below(1024)) / 1024.0;
    let mut spheres = Vec::new();
    for index in 0..64 {
        let mut sphere = Sphere {
            centre: [0.0, -1000.0, 0.0],
            radius: 999.0,
            paint: [0.0; 3],
        };
        if index > 0 {
            sphere.centre = [8.0 * part() - 4.0, 3.0 * part() - 1.0, 8.0 * part() + 2.0];
            sphere.radius = 0.25 + 0.5 * part();
        }
        sphere.paint = [part(), part(), part()];
        spheres.push(sphere);
    }
    spheres
}

fn seen(spheres: &[Sphere], origin: Vector, towards: Vector, reflections: u32) -> Vector {
    let Some((sphere, distance)) = first(spheres, origin, towards) else {
        return [0.5, 0.625, 0.75];
    };
    let point = sum(origin, towards, distance);
    let normal = unit(sum(point, sphere.centre, -1.0));
    let lit = first(spheres, point, LIGHT).is_none();
    let light = if lit {
        dot(normal, LIGHT).max(0.0)
    } else {
        0.0
    };
    let own = sphere.paint.map(|part| part * (0.125 + 0.875 * light));
    if reflections == 0 {
        return own;
    }
    let turned = unit(sum(towards, normal, -2.0 * dot(towards, normal)));
    let other = seen(spheres, point, turned, reflections - 1);
    [0, 1, 2].map(|part| own[part] * 0.75 + other[part] * 0.25)
}

fn first(spheres: &[Sphere], origin: Vector, towards: Vector) -> Option<(&Sphere, f64)> {
    let hits = spheres.iter().filter_map(|sphere| {
        let from = sum(origin, sphere.centre, -1.0);
        let along = dot(from, towards);
        let inside = along * along - (dot(from, from) - sphere.radius * sphere.radius);
        let near = -along - inside.sqrt();
        (inside >= 0.0 && near > 1e-6).then_some((sphere, near))
    });
    // The first of those that are equally near.
    hits.reduce(|best, next| if next.1 < best.1 { next } else { best })
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn sum(a: Vector, b: Vector, much: f64) -> Vector {
    [0, 1, 2].map(|part| a[part] + much * b[part])
}

fn unit(a: Vector) -> Vector {
    let length = dot(a, a).sqrt();
    a.map(|part| part / length)
}
