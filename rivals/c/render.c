/* A ray tracer: all processors are busy, and nearly every object dies within its
 * pixel.
 *
 * Vectors, rays and hits are objects, made where they are needed and never
 * changed. By hand, a ray is freed with its vectors when its colour was found, a
 * hit with its point when a nearer one takes its place or when it was looked at,
 * a colour when it was mixed or painted. */
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "numbers.h"

enum {
    SPHERES = 64,
    /* How often a ray is reflected. */
    REFLECTIONS = 4,
};

/* What a reflection takes of the colour. */
static const double MIRROR = 0.25;
static const double AMBIENT = 0.125;
/* Hits that are nearer than this are the surface itself. */
static const double NEAREST = 1e-6;

struct parts {
    double x, y, z;
};

static const struct parts SKY = { 0.5, 0.625, 0.75 };
/* Where the light comes from; of length 1. */
static const struct parts LIGHT = { 0.48, 0.8, -0.36 };
static const struct parts EYE = { 0.0, 0.5, -5.0 };

/* An object. */
struct vector {
    struct parts parts;
};

struct ray {
    struct vector *origin, *direction;
};

struct hit {
    struct sphere *sphere;
    struct vector *point;
    double distance;
};

struct sphere {
    struct vector *centre, *colour;
    double radius;
};

struct picture {
    struct sphere **spheres;
    unsigned char **rows;
    int width, height;
    atomic_int next;
};

static inline double dot(struct parts a, struct parts b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static inline struct parts minus(struct parts a, struct parts b)
{
    return (struct parts){ a.x - b.x, a.y - b.y, a.z - b.z };
}

/* `a` and so much of `b`. */
static inline struct parts plus(struct parts a, struct parts b, double much)
{
    return (struct parts){ a.x + much * b.x, a.y + much * b.y, a.z + much * b.z };
}

static inline struct parts times(struct parts a, double much)
{
    return (struct parts){ a.x * much, a.y * much, a.z * much };
}

static inline struct parts unit(struct parts a)
{
    double length = sqrt(dot(a, a));

    return (struct parts){ a.x / length, a.y / length, a.z / length };
}

static struct vector *new_vector(struct parts parts)
{
    struct vector *vector = memory_numbers(sizeof *vector);

    vector->parts = parts;
    return vector;
}

static struct ray *new_ray(struct parts origin, struct parts towards)
{
    struct vector *from = new_vector(origin), *direction = new_vector(towards);
    struct ray *ray = memory_object(sizeof *ray);

    *ray = (struct ray){ from, direction };
    return ray;
}

static void free_ray(struct ray *ray)
{
    if (!memory_by_hand)
        return;
    memory_free(ray->origin);
    memory_free(ray->direction);
    memory_free(ray);
}

static void free_hit(struct hit *hit)
{
    if (!memory_by_hand || hit == NULL)
        return;
    memory_free(hit->point);
    memory_free(hit);
}

/* The spheres; the first is the ground. */
static struct sphere **new_spheres(void)
{
    struct random random = { 9000 };
    struct sphere **spheres = (void *)memory_references(SPHERES);

    for (int i = 0; i < SPHERES; i++) {
        struct parts centre = { 0.0, -1000.0, 0.0 }, colour;
        double radius = 999.0;
        struct vector *place, *paint;

#define PART ((double)below(&random, 1024) / 1024.0)
        if (i > 0) {
            centre.x = 8.0 * PART - 4.0;
            centre.y = 3.0 * PART - 1.0;
            centre.z = 8.0 * PART + 2.0;
            radius = 0.25 + 0.5 * PART;
        }
        colour.x = PART;
        colour.y = PART;
        colour.z = PART;
#undef PART
        place = new_vector(centre);
        paint = new_vector(colour);
        spheres[i] = memory_object(sizeof *spheres[i]);
        *spheres[i] = (struct sphere){ place, paint, radius };
    }
    return spheres;
}

static void free_spheres(struct sphere **spheres)
{
    for (int i = 0; i < SPHERES; i++) {
        memory_free(spheres[i]->centre);
        memory_free(spheres[i]->colour);
        memory_free(spheres[i]);
    }
    memory_free(spheres);
}

/* Whether a sphere about the origin is met along a direction of length 1, and how
 * far that is. */
static inline bool meets(struct parts from, struct parts direction, double radius,
                         double *distance)
{
    double along = dot(from, direction);
    double inside = along * along - (dot(from, from) - radius * radius);

    if (inside < 0.0)
        return false;
    *distance = -along - sqrt(inside);
    return *distance > NEAREST;
}

/* The first hit of a ray, or null. Each that is nearer than those before is an
 * object. */
static struct hit *nearest(struct sphere *const *spheres, const struct ray *ray)
{
    struct parts origin = ray->origin->parts, direction = ray->direction->parts;
    struct hit *hit = NULL;

    for (int i = 0; i < SPHERES; i++) {
        struct sphere *sphere = spheres[i];
        struct vector *point;
        double distance;

        if (!meets(minus(origin, sphere->centre->parts), direction, sphere->radius, &distance))
            continue;
        if (hit != NULL && hit->distance <= distance)
            continue;
        free_hit(hit);
        point = new_vector(plus(origin, direction, distance));
        hit = memory_object(sizeof *hit);
        *hit = (struct hit){ sphere, point, distance };
    }
    return hit;
}

/* What is seen along a ray. */
static struct vector *colour_of(struct sphere *const *spheres, const struct ray *ray,
                                int reflections)
{
    struct hit *hit = nearest(spheres, ray), *other_hit;
    struct parts point, normal, own, direction, other;
    struct ray *shadow, *reflected;
    struct sphere *sphere;
    struct vector *seen;
    double light;

    if (hit == NULL)
        return new_vector(SKY);
    point = hit->point->parts;
    sphere = hit->sphere;
    free_hit(hit);
    normal = unit(minus(point, sphere->centre->parts));
    shadow = new_ray(point, LIGHT);
    other_hit = nearest(spheres, shadow);
    light = other_hit == NULL ? fmax(dot(normal, LIGHT), 0.0) : 0.0;
    free_hit(other_hit);
    free_ray(shadow);
    own = times(sphere->colour->parts, AMBIENT + (1.0 - AMBIENT) * light);
    if (reflections == 0)
        return new_vector(own);
    direction = ray->direction->parts;
    reflected = new_ray(point, unit(plus(direction, normal, -2.0 * dot(direction, normal))));
    seen = colour_of(spheres, reflected, reflections - 1);
    other = seen->parts;
    memory_free(seen);
    free_ray(reflected);
    return new_vector((struct parts){
        own.x * (1.0 - MIRROR) + other.x * MIRROR,
        own.y * (1.0 - MIRROR) + other.y * MIRROR,
        own.z * (1.0 - MIRROR) + other.z * MIRROR,
    });
}

/* A row of the picture, three bytes a point. */
static unsigned char *new_row(const struct picture *picture, int row)
{
    unsigned char *points = memory_numbers(3 * (size_t)picture->width);
    double up = 0.5 - (row + 0.5) / picture->height;

    for (int column = 0; column < picture->width; column++) {
        double across = (column + 0.5) / picture->width - 0.5;
        struct ray *ray = new_ray(EYE, unit((struct parts){ 2.0 * across, 1.5 * up, 1.0 }));
        struct vector *colour = colour_of(picture->spheres, ray, REFLECTIONS);

        free_ray(ray);
        points[3 * column] = (unsigned char)(colour->parts.x * 255.0);
        points[3 * column + 1] = (unsigned char)(colour->parts.y * 255.0);
        points[3 * column + 2] = (unsigned char)(colour->parts.z * 255.0);
        memory_free(colour);
    }
    return points;
}

/* Threads take rows one by one. */
static uint64_t paint(void *context, unsigned number)
{
    struct picture *picture = context;
    int row;

    (void)number;
    while ((row = atomic_fetch_add_explicit(&picture->next, 1, memory_order_relaxed))
           < picture->height)
        picture->rows[row] = new_row(picture, row);
    return 0;
}

uint64_t render(const struct chosen *chosen)
{
    struct picture picture = {
        .spheres = new_spheres(),
        .width = chosen->tiny ? 32 : 1280,
        .height = chosen->tiny ? 24 : 960,
    };
    uint64_t sum = 0;

    picture.rows = (void *)memory_references((size_t)picture.height);
    run_mutators(chosen->mutators, paint, &picture);
    for (int row = 0; row < picture.height; row++) {
        sum = chained(sum, hash_on(NO_BYTES, picture.rows[row], 3 * (size_t)picture.width));
        memory_free(picture.rows[row]);
    }
    memory_free(picture.rows);
    if (memory_by_hand)
        free_spheres(picture.spheres);
    return sum;
}
