import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A ray tracer: all processors are busy, and nearly every object dies within its pixel.
 *
 * <p>Vectors, rays and hits are objects, made where they are needed and never changed. Between them, three numbers are
 * just that.
 */
final class Render implements Workload {
    private static final int SPHERES = 64;
    /** How often a ray is reflected. */
    private static final int REFLECTIONS = 4;
    /** What a reflection takes of the colour. */
    private static final double MIRROR = 0.25;

    private static final double AMBIENT = 0.125;
    /** Where the light comes from; of length 1. */
    private static final double LIGHT_X = 0.48;

    private static final double LIGHT_Y = 0.8;
    private static final double LIGHT_Z = -0.36;
    /** Hits that are nearer than this are the surface itself. */
    private static final double NEAREST = 1e-6;

    private static final class Vector {
        double x;
        double y;
        double z;

        Vector(double x, double y, double z) {
            this.x = x;
            this.y = y;
            this.z = z;
        }
    }

    private static final class Ray {
        Vector origin;
        Vector direction;

        Ray(Vector origin, Vector direction) {
            this.origin = origin;
            this.direction = direction;
        }
    }

    private static final class Hit {
        Sphere sphere;
        Vector point;
        double distance;

        Hit(Sphere sphere, Vector point, double distance) {
            this.sphere = sphere;
            this.point = point;
            this.distance = distance;
        }
    }

    private static final class Sphere {
        Vector centre;
        Vector colour;
        double radius;
    }

    private final int width;
    private final int height;

    /** 1280 by 960 points, or 32 by 24. */
    Render(Scale scale) {
        width = scale.of(1280, 32);
        height = scale.of(960, 24);
    }

    /** A number made of the picture. */
    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        Sphere[] spheres = new Scene().spheres;
        byte[][] picture = new byte[height][];
        AtomicInteger next = new AtomicInteger();
        mutators.run(
                thread -> {
                    Tracer tracer = new Tracer(spheres);
                    for (int row; (row = next.getAndIncrement()) < height; ) {
                        picture[row] = tracer.row(row);
                    }
                    return null;
                });
        long sum = 0;
        for (byte[] points : picture) {
            sum = Numbers.chained(sum, Numbers.hashOf(points));
        }
        return sum;
    }

    /** The spheres; the first is the ground. */
    private static final class Scene {
        final Sphere[] spheres = new Sphere[SPHERES];
        private long random = 9000;

        Scene() {
            for (int index = 0; index < SPHERES; index++) {
                Sphere sphere = new Sphere();
                if (index == 0) {
                    sphere.centre = new Vector(0, -1000, 0);
                    sphere.radius = 999;
                } else {
                    double x = 8 * part() - 4;
                    double y = 3 * part() - 1;
                    double z = 8 * part() + 2;
                    sphere.centre = new Vector(x, y, z);
                    sphere.radius = 0.25 + 0.5 * part();
                }
                double red = part();
                double green = part();
                double blue = part();
                sphere.colour = new Vector(red, green, blue);
                spheres[index] = sphere;
            }
        }

        private double part() {
            random = Numbers.next(random);
            return Numbers.of(random) % 1024 / 1024.0;
        }
    }

    /** A thread that traces rays. */
    private final class Tracer extends Apart {
        private final Sphere[] spheres;
        /** Keeps rays, and what they refer to, from being left out. */
        private Ray last;

        Tracer(Sphere[] spheres) {
            this.spheres = spheres;
        }

        /** A row of the picture, three bytes a point. */
        byte[] row(int row) {
            byte[] points = new byte[3 * width];
            for (int column = 0; column < width; column++) {
                double across = (column + 0.5) / width - 0.5;
                double up = 0.5 - (row + 0.5) / height;
                Vector origin = new Vector(0.0, 0.5, -5.0);
                Ray ray = towards(origin, 2 * across, 1.5 * up, 1);
                Vector colour = colour(ray, REFLECTIONS);
                points[3 * column] = (byte) (int) (colour.x * 255);
                points[3 * column + 1] = (byte) (int) (colour.y * 255);
                points[3 * column + 2] = (byte) (int) (colour.z * 255);
            }
            return points;
        }

        private Ray ray(Vector origin, Vector direction) {
            Ray ray = new Ray(origin, direction);
            last = ray;
            return ray;
        }

        /** A ray whose direction gets length 1. */
        private Ray towards(Vector origin, double x, double y, double z) {
            double length = Math.sqrt(x * x + y * y + z * z);
            Vector direction = new Vector(x / length, y / length, z / length);
            return ray(origin, direction);
        }

        /** What is seen along a ray. */
        private Vector colour(Ray ray, int reflections) {
            Hit hit = nearest(ray);
            if (hit == null) {
                return new Vector(0.5, 0.625, 0.75);
            }
            Vector point = hit.point;
            Vector centre = hit.sphere.centre;
            double x = point.x - centre.x;
            double y = point.y - centre.y;
            double z = point.z - centre.z;
            double length = Math.sqrt(x * x + y * y + z * z);
            x /= length;
            y /= length;
            z /= length;
            Vector from = new Vector(point.x, point.y, point.z);
            Vector sun = new Vector(LIGHT_X, LIGHT_Y, LIGHT_Z);
            boolean lit = nearest(ray(from, sun)) == null;
            double light = lit ? Math.max(x * LIGHT_X + y * LIGHT_Y + z * LIGHT_Z, 0) : 0;
            double much = AMBIENT + (1 - AMBIENT) * light;
            Vector paint = hit.sphere.colour;
            double red = paint.x * much;
            double green = paint.y * much;
            double blue = paint.z * much;
            if (reflections == 0) {
                return new Vector(red, green, blue);
            }
            Vector direction = ray.direction;
            double along = -2 * (direction.x * x + direction.y * y + direction.z * z);
            Vector origin = new Vector(point.x, point.y, point.z);
            Ray reflected =
                    towards(
                            origin,
                            direction.x + along * x,
                            direction.y + along * y,
                            direction.z + along * z);
            Vector other = colour(reflected, reflections - 1);
            return new Vector(
                    red * (1 - MIRROR) + other.x * MIRROR,
                    green * (1 - MIRROR) + other.y * MIRROR,
                    blue * (1 - MIRROR) + other.z * MIRROR);
        }

        /** The first hit of a ray, or null. Each that is nearer than those before is an object. */
        private Hit nearest(Ray ray) {
            Vector origin = ray.origin;
            Vector direction = ray.direction;
            Hit hit = null;
            for (Sphere sphere : spheres) {
                Vector centre = sphere.centre;
                double x = origin.x - centre.x;
                double y = origin.y - centre.y;
                double z = origin.z - centre.z;
                double along = x * direction.x + y * direction.y + z * direction.z;
                double inside =
                        along * along - (x * x + y * y + z * z - sphere.radius * sphere.radius);
                if (inside < 0) {
                    continue;
                }
                // How far the sphere is met first.
                double distance = -along - Math.sqrt(inside);
                if (distance <= NEAREST || hit != null && hit.distance <= distance) {
                    continue;
                }
                Vector point =
                        new Vector(
                                origin.x + distance * direction.x,
                                origin.y + distance * direction.y,
                                origin.z + distance * direction.z);
                hit = new Hit(sphere, point, distance);
            }
            return hit;
        }
    }
}
