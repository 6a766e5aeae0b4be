//! The plots of one process, each an SVG element.
//!
//! They are drawn in the colours of [`Ink`]; the page's style sheet replaces these by their value, so that one drawing serves
//! light and dark. What has more points than the picture has columns is thinned out: of each column the extremes are left.

use std::io;

use gleaner_eventlog::{Cycle, Process, Span, Spread};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::failure::Failure;
use crate::words::{Unit, shown, tick, unit_of_size, unit_of_time};

/// Twice the size that they are shown in: coordinates are whole numbers.
const WIDTH: u32 = 1600;
const HEIGHT: u32 = 460;
const LETTERS: (&str, u32) = ("sans-serif", 29);
/// Columns of a plot; more points than twice these are thinned out.
const COLUMNS: usize = 1000;
/// Room for the labels on the left.
const LEFT: u32 = 130;
/// Letters of a label that has more room there.
const LABEL_LETTERS: usize = 44;
/// The narrowest window of the utilisation.
const NARROWEST: u64 = 1_000_000;
/// Windows for which it is computed.
const WINDOWS: u32 = 80;

/// What is drawn, by its colour.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Ink {
    Text,
    Axis,
    Grid,
    Heap,
    Live,
    Stop,
    Stopping,
    Step,
    Beside,
    Idle,
}

impl Ink {
    const fn colour(self) -> RGBColor {
        match self {
            Ink::Text => RGBColor(34, 34, 34),
            Ink::Axis => RGBColor(136, 136, 136),
            Ink::Grid => RGBColor(221, 221, 221),
            Ink::Heap => RGBColor(153, 153, 170),
            Ink::Live => RGBColor(0, 114, 178),
            Ink::Stop => RGBColor(213, 94, 0),
            Ink::Stopping => RGBColor(230, 159, 0),
            Ink::Step => RGBColor(0, 158, 115),
            Ink::Beside => RGBColor(170, 187, 204),
            Ink::Idle => RGBColor(204, 121, 167),
        }
    }

    fn line(self) -> ShapeStyle {
        self.colour().stroke_width(3)
    }
}

type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<io::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The drawing as text.
fn drawn(height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, Failure> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
    let done = draw(&area).and_then(|()| area.present());
    drop(area);
    done.map_err(|error| Failure::refused(format_args!("a plot cannot be drawn: {error}")))?;
    Ok(text)
}

fn letters() -> TextStyle<'static> {
    LETTERS.into_font().color(&Ink::Text.colour())
}

/// Axes with a grid, in any two coordinates.
macro_rules! mesh {
    ($chart:expr, $x:expr, $y:expr, $x_label:expr, $y_label:expr) => {
        $chart
            .configure_mesh()
            .bold_line_style(Ink::Grid.colour())
            .light_line_style(TRANSPARENT)
            .axis_style(Ink::Axis.colour())
            .label_style(letters())
            .axis_desc_style(letters())
            .x_desc($x)
            .y_desc($y)
            .x_labels(9)
            .y_labels(6)
            .x_label_formatter(&$x_label)
            .y_label_formatter(&$y_label)
            .draw()?
    };
}

/// A chart's frame, empty.
fn frame<'a, 'b>(area: &'a Area<'b>) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut frame = ChartBuilder::on(area);
    frame
        .margin(14)
        .margin_right(70)
        .x_label_area_size(86)
        .y_label_area_size(LEFT);
    frame
}

/// The moments of a process in a unit that fits all, from its first one.
struct Clock {
    first: u64,
    unit: Unit,
    /// All of it.
    end: f64,
}

impl Clock {
    fn of(process: &Process) -> Clock {
        let (first, last) = process.time();
        let unit = unit_of_time(last - first);
        let end = ((last - first) as f64 / unit.size).max(1e-9);
        Clock { first, unit, end }
    }

    fn at(&self, moment: u64) -> f64 {
        moment.saturating_sub(self.first) as f64 / self.unit.size
    }
}

/// What is drawn of points in the order of time: all, or of each column the first, the least, the most and the last.
fn thinned(points: &[(f64, f64)], end: f64) -> Vec<(f64, f64)> {
    if points.len() <= 2 * COLUMNS {
        return points.to_vec();
    }
    let column = |point: &(f64, f64)| (point.0 / end * COLUMNS as f64) as usize;
    let mut kept = Vec::new();
    for part in points.chunk_by(|one, other| column(one) == column(other)) {
        let by_value = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        let extremes = [part.iter().min_by(by_value), part.iter().max_by(by_value)];
        kept.push(part[0]);
        kept.extend(
            extremes
                .into_iter()
                .flatten()
                .map(|point| (part[0].0, point.1)),
        );
        kept.push(part[part.len() - 1]);
    }
    kept
}

/// A line that goes up or down where its value changes.
fn stairs(points: &[(f64, f64)], end: f64) -> Vec<(f64, f64)> {
    let mut line = Vec::new();
    let mut before = None;
    for &(at, value) in points {
        line.extend(before.map(|before| (at, before)));
        line.push((at, value));
        before = Some(value);
    }
    line.extend(before.map(|before| (end, before)));
    line
}

/// When cycles of marking in steps were under way, in the order of time. Those that the picture cannot show apart are one.
fn bands(process: &Process, clock: &Clock) -> Vec<(f64, f64)> {
    let narrowest = clock.end / COLUMNS as f64;
    let of = |cycle: &Cycle| {
        let start = clock.at(cycle.start);
        (start, clock.at(cycle.end).max(start + narrowest))
    };
    let mut all: Vec<_> = process.cycles().iter().map(of).collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut bands: Vec<(f64, f64)> = Vec::new();
    for (start, end) in all {
        match bands.last_mut() {
            Some(last) if start <= last.1 + narrowest => last.1 = last.1.max(end),
            _ => bands.push((start, end)),
        }
    }
    bands
}

/// Bands from the bottom to `top`.
fn drawn_bands(
    process: &Process,
    clock: &Clock,
    top: f64,
) -> impl Iterator<Item = Rectangle<(f64, f64)>> {
    let ink = Ink::Step.colour().mix(0.2).filled();
    let bands = bands(process, clock).into_iter();
    bands.map(move |(start, end)| Rectangle::new([(start, 0.0), (end, top)], ink))
}

/// When something was done in idle time, once for each column: memory was given back, or a collection ran.
fn moments_of_idle_time(process: &Process, clock: &Clock, is_collection: bool) -> Vec<f64> {
    let chosen = process.idle().iter();
    let chosen = chosen.filter(|action| action.given_back.is_none() == is_collection);
    let mut moments: Vec<f64> = chosen.map(|action| clock.at(action.at)).collect();
    moments.sort_by(f64::total_cmp);
    let column = |at: f64| (at / clock.end * COLUMNS as f64) as usize;
    moments.dedup_by_key(|at| column(*at));
    moments
}

/// How large the heap was, and how much of it lived, over time; with bands of cycles and marks of idle time.
pub(super) fn heap(process: &Process) -> Result<String, Failure> {
    let clock = Clock::of(process);
    let both = process.capacity().iter().chain(process.live());
    let most = both.map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let unit = unit_of_size(most);
    let top = (most as f64 / unit.size).max(1.0) * 1.05;
    let scaled = |points: &[(u64, u64)]| {
        let mut scaled: Vec<_> = points
            .iter()
            .map(|(at, bytes)| (clock.at(*at), *bytes as f64 / unit.size))
            .collect();
        scaled.sort_by(|one, other| one.0.total_cmp(&other.0));
        thinned(&scaled, clock.end)
    };
    let (capacity, live) = (
        stairs(&scaled(process.capacity()), clock.end),
        scaled(process.live()),
    );
    drawn(HEIGHT, |area| {
        let mut chart = frame(area).build_cartesian_2d(0.0..clock.end, 0.0..top)?;
        mesh!(
            chart,
            clock.unit.name,
            unit.name,
            |x: &f64| tick(*x),
            |y: &f64| tick(*y)
        );
        chart.draw_series(drawn_bands(process, &clock, top))?;
        let filled = AreaSeries::new(capacity.iter().copied(), 0.0, Ink::Heap.colour().mix(0.25));
        chart.draw_series(filled.border_style(Ink::Heap.line()))?;
        chart.draw_series(LineSeries::new(live.iter().copied(), Ink::Live.line()))?;
        if live.len() <= COLUMNS / 10 {
            let dot = |at: &(f64, f64)| Circle::new(*at, 5, Ink::Live.colour().filled());
            chart.draw_series(live.iter().map(dot))?;
        }
        // One often follows the other at once.
        let given_back = moments_of_idle_time(process, &clock, false);
        let triangle =
            |at: &f64| TriangleMarker::new((*at, top * 0.96), 12, Ink::Idle.colour().filled());
        chart.draw_series(given_back.iter().map(triangle))?;
        let collections = moments_of_idle_time(process, &clock, true);
        let cross = |at: &f64| Cross::new((*at, top * 0.88), 10, Ink::Idle.line());
        chart.draw_series(collections.iter().map(cross))?;
        Ok(())
    })
}

/// Each stop, or each step, as a bar at its moment that is as high as it is long, before bands of cycles. The lower part of
/// a stop is the time until all threads had stopped.
pub(super) fn timeline(process: &Process, of_steps: bool) -> Result<String, Failure> {
    let clock = Clock::of(process);
    let chosen: Vec<Span> = longest_of_columns(process, of_steps, &clock);
    let longest = chosen.iter().map(Span::duration).max().unwrap_or(0);
    let unit = unit_of_time(longest);
    let top = (longest as f64 / unit.size).max(1e-9) * 1.05;
    let narrowest = clock.end * 2.5 / f64::from(WIDTH - LEFT);
    let ink = if of_steps { Ink::Step } else { Ink::Stop };
    drawn(HEIGHT, |area| {
        let mut chart = frame(area).build_cartesian_2d(0.0..clock.end, 0.0..top)?;
        mesh!(
            chart,
            clock.unit.name,
            unit.name,
            |x: &f64| tick(*x),
            |y: &f64| tick(*y)
        );
        chart.draw_series(drawn_bands(process, &clock, top))?;
        let bar = |span: &Span, took: u64, ink: Ink| {
            let (start, end) = (clock.at(span.start), clock.at(span.end));
            let height = took as f64 / unit.size;
            let corners = [(start, 0.0), (end.max(start + narrowest), height)];
            Rectangle::new(corners, ink.colour().filled())
        };
        chart.draw_series(chosen.iter().map(|span| bar(span, span.duration(), ink)))?;
        let stopping = chosen.iter().filter(|span| span.stopping > 0);
        let until_stopped = |span: &Span| span.stopping.min(span.duration());
        chart.draw_series(stopping.map(|span| bar(span, until_stopped(span), Ink::Stopping)))?;
        Ok(())
    })
}

/// All stops or steps; the longest of each column if there are too many.
fn longest_of_columns(process: &Process, of_steps: bool, clock: &Clock) -> Vec<Span> {
    let all = process
        .spans()
        .iter()
        .filter(|span| span.is_step == of_steps);
    let all: Vec<Span> = all.copied().collect();
    if all.len() <= 2 * COLUMNS {
        return all;
    }
    let column = |span: &Span| (clock.at(span.start) / clock.end * COLUMNS as f64) as usize;
    let parts = all.chunk_by(|one, other| column(one) == column(other));
    parts
        .filter_map(|part| part.iter().max_by_key(|span| span.duration()).copied())
        .collect()
}

/// For each length the share of the stops, and of the steps, that were no longer.
pub(super) fn distribution(stops: &Spread, steps: &Spread) -> Result<String, Failure> {
    let shortest = [stops, steps]
        .into_iter()
        .filter_map(|spread| spread.sorted().first().copied());
    let shortest = shortest.min().unwrap_or(0).max(1);
    let longest = stops.longest().max(steps.longest());
    let (from, to) = decades(shortest, longest);
    drawn(HEIGHT, |area| {
        let mut chart = frame(area).build_cartesian_2d((from..to).log_scale(), 0.0..100.0)?;
        mesh!(
            chart,
            "no longer than",
            "%",
            |x: &f64| tick_of_time(*x),
            |y: &f64| tick(*y)
        );
        for (spread, ink) in [(steps, Ink::Step), (stops, Ink::Stop)] {
            chart.draw_series(LineSeries::new(shares(spread, from, to), ink.line()))?;
            if spread.count() > 0 {
                let at = |percent: f64| (spread.at(percent).max(1) as f64, percent);
                let dot = |percent| Circle::new(at(percent), 7, ink.colour().filled());
                chart.draw_series([50.0, 90.0, 99.0, 100.0].map(dot))?;
            }
        }
        Ok(())
    })
}

/// A time beside an axis of powers of ten, which are not those of minutes.
fn tick_of_time(ns: f64) -> String {
    let unit = unit_of_time((ns as u64).min(1_000_000_000));
    format!("{} {}", tick(ns / unit.size), unit.name)
}

/// Powers of ten around two values.
fn decades(least: u64, most: u64) -> (f64, f64) {
    let from = (least.max(1) as f64).log10().floor();
    let to = (most.max(1) as f64).log10().ceil().max(from + 1.0);
    (10f64.powf(from), 10f64.powf(to))
}

/// The line of a distribution: of many, the last ones and some of the others.
fn shares(spread: &Spread, from: f64, to: f64) -> Vec<(f64, f64)> {
    let count = spread.count();
    if count == 0 {
        return Vec::new();
    }
    let stride = count.div_ceil(COLUMNS);
    let is_kept = |index: &usize| index.is_multiple_of(stride) || index + COLUMNS / 5 > count;
    let mut points = vec![(from, 0.0)];
    for index in (0..count).filter(is_kept) {
        points.push((
            spread.sorted()[index].max(1) as f64,
            (index + 1) as f64 * 100.0 / count as f64,
        ));
    }
    let mut line = stairs(&points, to);
    line.dedup();
    line
}

/// The least share of the program in windows of each width.
pub(super) fn utilisation(process: &Process) -> Result<String, Failure> {
    let (first, last) = process.time();
    let run = (last - first).max(2);
    let narrowest = NARROWEST.min(run / 2).max(1);
    let pauses = process.utilisation();
    let ratio = run as f64 / narrowest as f64;
    let line: Vec<_> = (0..=WINDOWS)
        .map(|step| {
            let window = narrowest as f64 * ratio.powf(f64::from(step) / f64::from(WINDOWS));
            (window, pauses.least(window as u64).max(0.0) * 100.0)
        })
        .collect();
    let widest = (narrowest as f64 * ratio).max(narrowest as f64 + 1.0);
    drawn(HEIGHT, |area| {
        let x = (narrowest as f64..widest).log_scale();
        let mut chart = frame(area).build_cartesian_2d(x, 0.0..100.0)?;
        mesh!(
            chart,
            "window",
            "%",
            |x: &f64| tick_of_time(*x),
            |y: &f64| tick(*y)
        );
        let filled = AreaSeries::new(line.iter().copied(), 0.0, Ink::Live.colour().mix(0.2));
        chart.draw_series(filled.border_style(Ink::Live.line()))?;
        Ok(())
    })
}

/// A row of bars: its label, nanoseconds of stops, of steps and of the rest, and what stands behind it.
pub(super) struct Row {
    pub(super) label: String,
    pub(super) parts: [u64; 3],
    pub(super) note: String,
}

/// A bar for each row, from above.
pub(super) fn bars(rows: &[Row], wide: bool) -> Result<String, Failure> {
    let sum = |row: &Row| {
        row.parts
            .iter()
            .fold(0, |sum: u64, part| sum.saturating_add(*part))
    };
    let longest = rows.iter().map(sum).max().unwrap_or(0);
    let unit = unit_of_time(longest);
    let right = (longest as f64 / unit.size).max(1e-9) * if wide { 1.45 } else { 1.25 };
    let count = rows.len().max(1) as f64;
    let left = if wide { 620 } else { 260 };
    let height = 100 + 44 * rows.len() as u32;
    drawn(height, |area| {
        let mut frame = frame(area);
        frame.y_label_area_size(left);
        let mut chart = frame.build_cartesian_2d(0.0..right, count..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(Ink::Grid.colour())
            .light_line_style(TRANSPARENT)
            .axis_style(Ink::Axis.colour())
            .label_style(letters())
            .axis_desc_style(letters())
            .x_desc(unit.name)
            .x_labels(8)
            .x_label_formatter(&|x| tick(*x))
            .draw()?;
        for (index, row) in rows.iter().enumerate() {
            let (upper, lower) = (index as f64 + 0.18, index as f64 + 0.82);
            let mut from = 0.0;
            for (part, ink) in row.parts.iter().zip([Ink::Stop, Ink::Step, Ink::Beside]) {
                let to = from + *part as f64 / unit.size;
                if *part > 0 {
                    let bar = Rectangle::new([(from, upper), (to, lower)], ink.colour().filled());
                    chart.draw_series([bar])?;
                }
                from = to;
            }
            let middle = index as f64 + 0.5;
            let (begin, end) = (
                chart.backend_coord(&(0.0, middle)),
                chart.backend_coord(&(from, middle)),
            );
            let on_left = letters().pos(Pos::new(HPos::Right, VPos::Center));
            area.draw_text(&label(&row.label), &on_left, (begin.0 - 14, begin.1))?;
            let on_right = letters().pos(Pos::new(HPos::Left, VPos::Center));
            area.draw_text(&row.note, &on_right, (end.0 + 12, end.1))?;
        }
        Ok(())
    })
}

/// A label that fits.
fn label(text: &str) -> String {
    let text = shown(text);
    match text.char_indices().nth(LABEL_LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_points_the_extremes_stay() {
        let mut points: Vec<_> = (0..100_000).map(|at| (f64::from(at), 5.0)).collect();
        points[70_001].1 = 90.0;
        points[50_001].1 = 1.0;
        let kept = thinned(&points, 100_000.0);
        assert!(kept.len() <= 4 * COLUMNS + 4, "{}", kept.len());
        assert!(
            kept.iter().any(|point| point.1 == 90.0) && kept.iter().any(|point| point.1 == 1.0)
        );
        assert!(kept.is_sorted_by(|one, other| one.0 <= other.0));
        assert_eq!(thinned(&points[..9], 100_000.0), points[..9]);
    }

    #[test]
    fn of_many_stops_the_longest_stay() {
        let mut process = Process::default();
        for at in 0..100_000_u64 {
            for (event, after) in [("stop-world", 0), ("resume-world", 1)] {
                let took = if at == 77_777 { 5 } else { 1 };
                let line = format!(
                    "{{\"event\":\"{event}\",\"pid\":1,\"collection\":{},\"start_ns\":{},\"duration_ns\":{took}}}",
                    at + 1,
                    at * 20 + after
                );
                process.add(&serde_json::from_str(&line).unwrap());
            }
        }
        let chosen = longest_of_columns(&process, false, &Clock::of(&process));
        assert!(chosen.len() <= COLUMNS + 1, "{}", chosen.len());
        let longest = chosen.iter().max_by_key(|span| span.duration());
        assert_eq!(longest.map(|span| span.collection), Some(77_778));
    }

    fn process(lines: &[String]) -> Process {
        let mut process = Process::default();
        for line in lines {
            process.add(&serde_json::from_str(line).unwrap());
        }
        process
    }

    /// A step of a cycle.
    fn step(collection: u64, start: u64) -> String {
        format!(
            "{{\"event\":\"mark-step\",\"pid\":1,\"collection\":{collection},\"start_ns\":{start},\"duration_ns\":10}}"
        )
    }

    #[test]
    fn cycles_are_bands_and_close_ones_are_one_band() {
        let log = [
            step(1, 0),
            step(1, 100_000),
            step(2, 100_050),
            step(2, 200_000),
            step(3, 600_000),
            step(4, 999_990),
        ];
        let process = process(&log);
        let clock = Clock::of(&process);
        let ns = |at: f64| (at * clock.unit.size).round() as u64;
        let bands: Vec<_> = bands(&process, &clock)
            .into_iter()
            .map(|(start, end)| (ns(start), ns(end)))
            .collect();
        // A thousandth of the run is the narrowest, and the narrowest that is left between two.
        assert_eq!(
            bands,
            [(0, 200_010), (600_000, 601_000), (999_990, 1_000_990)]
        );
        let many: Vec<_> = (0..50_000)
            .map(|number| step(number + 1, number * 20))
            .collect();
        let process = self::process(&many);
        assert_eq!(super::bands(&process, &Clock::of(&process)).len(), 1);
        for plot in [
            timeline(&process, true),
            timeline(&process, false),
            heap(&process),
        ] {
            let has_band = plot.unwrap().contains("opacity=\"0.2\" fill=\"#009E73\"");
            assert!(has_band, "no band");
        }
    }

    #[test]
    fn the_time_to_stop_is_the_lower_part_of_a_stop() {
        let event = |name: &str, start: u64, took: u64| {
            format!(
                "{{\"event\":\"{name}\",\"pid\":1,\"collection\":1,\"start_ns\":{start},\"duration_ns\":{took}}}"
            )
        };
        let stop = [event("stop-world", 0, 30), event("resume-world", 90, 10)];
        let plot = timeline(&process(&stop), false).unwrap();
        assert!(plot.contains("fill=\"#E69F00\"") && plot.contains("fill=\"#D55E00\""));
        let at_once = [event("stop-world", 0, 0), event("resume-world", 90, 10)];
        let plot = timeline(&process(&at_once), false).unwrap();
        assert!(!plot.contains("#E69F00") && plot.contains("fill=\"#D55E00\""));
    }

    /// Of a picture, how far from the top the shapes of idle time are that have this name: the numbers after `key`.
    fn heights(plot: &str, name: &str, key: &str) -> Vec<f64> {
        let shapes = plot.lines().filter(|line| {
            line.trim_start().starts_with(&format!("<{name} ")) && line.contains("#CC79A7")
        });
        let number = |text: &str| {
            let end = text.find(|it: char| !it.is_ascii_digit() && it != '.');
            text[..end.unwrap_or(text.len())].parse().unwrap()
        };
        let of = |shape: &str| number(shape.split_once(key).unwrap().1);
        shapes.map(of).collect()
    }

    /// A collection often follows what was given back at once.
    #[test]
    fn collections_of_idle_time_are_below_what_was_given_back() {
        let log = [
            "{\"event\":\"give-back\",\"pid\":1,\"start_ns\":0,\"bytes\":4096}".to_string(),
            "{\"event\":\"end\",\"pid\":1,\"collection\":1,\"start_ns\":1000000,\"bytes\":4096,\
             \"reason\":\"nothing was allocated for a while\"}"
                .to_string(),
        ];
        let plot = heap(&process(&log)).unwrap();
        let triangles = heights(&plot, "polygon", ",");
        let crosses = heights(&plot, "line", "y1=\"");
        assert!(!triangles.is_empty() && !crosses.is_empty(), "{plot}");
        for triangle in &triangles {
            // They are 24 high, and crosses 20.
            assert!(
                crosses.iter().all(|cross| *cross > triangle + 5.0),
                "{plot}"
            );
        }
    }

    #[test]
    fn idle_time_is_marked_once_for_each_column() {
        let given_back = |start: u64| {
            format!("{{\"event\":\"give-back\",\"pid\":1,\"start_ns\":{start},\"bytes\":4096}}")
        };
        let collected = "{\"event\":\"end\",\"pid\":1,\"collection\":1,\"start_ns\":1000000,\"bytes\":4096,\
                         \"reason\":\"nothing was allocated for a while\"}";
        let log = [
            given_back(0),
            given_back(10),
            given_back(500_000),
            collected.into(),
        ];
        let process = process(&log);
        let clock = Clock::of(&process);
        assert_eq!(moments_of_idle_time(&process, &clock, false).len(), 2);
        assert_eq!(moments_of_idle_time(&process, &clock, true).len(), 1);
        let plot = heap(&process).unwrap();
        assert_eq!(
            plot.matches("<polygon").count(),
            2 + plot_without_idle_time().1
        );
        assert!(
            plot.contains("stroke=\"#CC79A7\"") && !plot_without_idle_time().0.contains("#CC79A7")
        );
    }

    /// The plot of a heap of which nothing is known but what lived once, and how many polygons it has.
    fn plot_without_idle_time() -> (String, usize) {
        let line =
            "{\"event\":\"end\",\"pid\":1,\"collection\":1,\"start_ns\":1000000,\"bytes\":4096}";
        let plot = heap(&process(&[line.into()])).unwrap();
        let polygons = plot.matches("<polygon").count();
        (plot, polygons)
    }

    #[test]
    fn stairs_keep_a_value_until_it_changes() {
        let line = stairs(&[(0.0, 1.0), (2.0, 5.0)], 9.0);
        assert_eq!(line, [(0.0, 1.0), (2.0, 1.0), (2.0, 5.0), (9.0, 5.0)]);
        assert!(stairs(&[], 9.0).is_empty());
    }

    #[test]
    fn a_distribution_ends_at_all_and_shows_the_longest() {
        let spread = Spread::new((1..=50_000).chain([9_000_000]));
        let line = shares(&spread, 1.0, 1e7);
        assert!(line.len() < 3 * COLUMNS, "{}", line.len());
        assert_eq!(line.last(), Some(&(1e7, 100.0)));
        assert!(line.contains(&(9_000_000.0, 100.0)));
        assert_eq!(decades(12, 13_000), (10.0, 100_000.0));
        assert_eq!(decades(0, 0), (1.0, 10.0));
    }

    #[test]
    fn nothing_and_numbers_without_sense_are_drawn() {
        let mut process = Process::default();
        let plots = |process: &Process| {
            [
                heap(process).unwrap(),
                timeline(process, false).unwrap(),
                distribution(&process.spread(false), &process.spread(true)).unwrap(),
                utilisation(process).unwrap(),
            ]
        };
        for plot in plots(&process) {
            assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
        }
        for event in ["stop-world", "resume-world", "resize", "end"] {
            let most = u64::MAX;
            let text = format!(
                "{{\"event\":\"{event}\",\"pid\":1,\"collection\":1,\"start_ns\":{most},\
                 \"duration_ns\":{most},\"bytes\":{most}}}"
            );
            process.add(&serde_json::from_str(&text).unwrap());
            process.add(
                &serde_json::from_str(
                    &text.replace(&format!("\"start_ns\":{most}"), "\"start_ns\":0"),
                )
                .unwrap(),
            );
            for plot in plots(&process) {
                assert!(plot.contains("<svg") && !plot.contains("NaN"));
            }
        }
    }

    #[test]
    fn powers_of_ten_are_told_in_units_of_a_thousand() {
        let ticks = [1e3, 1e7, 1e9, 1e11, 1e13].map(tick_of_time);
        assert_eq!(ticks, ["1 µs", "10 ms", "1 s", "100 s", "10000 s"]);
    }

    #[test]
    fn labels_are_escaped_and_short() {
        let row = Row {
            label: format!("<script>{}", "x".repeat(99)),
            parts: [5, 0, 7],
            note: "2 & 3".into(),
        };
        let plot = bars(&[row], true).unwrap();
        assert!(
            plot.contains("&lt;script&gt;xx") && plot.contains("x…") && plot.contains("2 &amp; 3")
        );
        assert!(!plot.contains("<script>"));
    }
}
