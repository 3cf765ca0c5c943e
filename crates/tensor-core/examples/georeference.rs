//! Converts points on a map to pixels of an image and back, and draws a picture with the points
//! marked.
//!
//! Role: an example of an affine georeference as a tensor program. Run it with `cargo run -p
//! tensor-core --example georeference`. An output folder may follow after `--`; the default is the
//! folder for temporary files.
//! Method: a world file contains six numbers, one per line, in the order A, D, B, E, C, F: `x = A
//! col + B row + C`, `y = D col + E row + F`. With one position in each row of a matrix, this is
//! one matrix product and one sum. The inverse subtracts the origin first, because map coordinates
//! are large and their differences small.
//! Convention: C and F are the *centre* of the upper left pixel. Therefore integer columns and rows
//! are pixel centres, the image begins half a pixel before column 0, and a point is in the pixel
//! `floor(position + 1/2)`. Libraries that count from the corner of the image (GDAL's geotransform)
//! shift C and F by half a pixel and use `floor(position)`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::ndarray::{ArrayD, array};
use tensor_core::rng::Philox;
use tensor_core::{DType, Host, Tensor};

/// A world file with pixels of half a metre, and north nearly at the top.
const WORLD_FILE: &str = "0.5\n-0.05\n-0.05\n-0.5\n623608.25\n487911.75\n";

/// Hill tops: x and y on the map, height and radius, all in metres.
const HILLS: [[f64; 4]; 5] = [
    [623_640.0, 487_875.0, 60.0, 18.0],
    [623_680.5, 487_886.0, 45.0, 12.0],
    [623_705.0, 487_845.0, 80.0, 22.0],
    [623_656.0, 487_838.5, 35.0, 10.0],
    [623_745.0, 487_876.0, 50.0, 15.0],
];

const ROWS: u32 = 200;
const COLS: u32 = 320;

/// The radii of a mark, in pixels: a ring with a dot in the middle.
const RING: [f64; 2] = [4.5, 6.5];
const DOT: f64 = 1.2;

/// The affine transformation between image and map, for positions in the last axis of a tensor:
/// `[…, 2]`, in f64.
struct Georeference {
    /// The matrix from `[col, row]` to `[x, y]` relative to the origin.
    to_map: Tensor,
    /// The matrix from `[x, y]` relative to the origin to `[col, row]`.
    to_pixels: Tensor,
    /// The map position of the centre of the upper left pixel.
    origin: Tensor,
}

impl Georeference {
    /// Parses a world file.
    fn parse(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<Vec<f64>, _>>();
        let numbers = numbers.map_err(|error| format!("world file: {error}"))?;
        let [a, d, b, e, c, f] = numbers[..] else {
            return Err(format!(
                "world file: wrong number of values ({}; expected 6)",
                numbers.len()
            ));
        };
        let det = a * e - b * d;
        if !(det.abs() > 0.0 && det.is_finite()) {
            return Err(format!(
                "world file: pixel area is zero or not finite ({det})"
            ));
        }
        Ok(Self {
            to_map: Tensor::from_array(array![[a, d], [b, e]]),
            to_pixels: Tensor::from_array(array![[e / det, -d / det], [-b / det, a / det]]),
            origin: Tensor::from_array(array![c, f]),
        })
    }

    /// Returns the positions on the map of positions in the image.
    fn map(&self, pixels: &Tensor) -> Tensor {
        pixels.matmul(&self.to_map) + &self.origin
    }

    /// Returns the positions in the image, in fractions of pixels, of positions on the map.
    fn pixels(&self, map: &Tensor) -> Tensor {
        (map - &self.origin).matmul(&self.to_pixels)
    }

    /// Returns the column and row of the pixel that contains a position on the map. Positions
    /// outside the image have columns or rows out of range.
    fn cells(&self, map: &Tensor) -> Tensor {
        (self.pixels(map) + 0.5).floor().cast(DType::I32)
    }
}

/// Converts a hundred thousand points to the map and back, and checks the convention at pixel
/// borders. Returns the largest error in pixels.
fn check(georeference: &Georeference, host: &Host) -> tensor_core::Result<f64> {
    const N_POINTS: usize = 100_000;
    let random = Philox::new(1);
    let uniform =
        |stream, shape: &[usize]| Tensor::rand(random.stream(stream), shape).cast(DType::F64);
    let size = Tensor::from_array(array![f64::from(COLS), f64::from(ROWS)]);
    let pixels = uniform(0, &[N_POINTS, 2]) * &size - 0.5;
    let there_and_back = georeference.pixels(&georeference.map(&pixels));
    let error = (&there_and_back - &pixels)
        .abs()
        .max(..)
        .eval::<f64>(host)?
        .sum();
    // Map coordinates below 2^20 have a precision of 2^-33 metres; a pixel measures half a metre.
    assert!(
        error < 1e-9,
        "round trip: error is {error} pixels (limit 1e-9)"
    );

    let map = georeference.map(&pixels).eval::<f64>(host)?;
    let back = georeference
        .map(&georeference.pixels(&Tensor::from_array(map.clone())))
        .eval::<f64>(host)?;
    assert_close(back, map, Tolerance::relative(4));

    // A point less than half a pixel from a centre, on either side, is in the pixel of this centre.
    let cells = (uniform(1, &[N_POINTS, 2]) * &size).floor();
    let offsets = (uniform(2, &[N_POINTS, 2]) - 0.5) * 0.999;
    let found = georeference.cells(&georeference.map(&(&cells + offsets)));
    assert_close(
        found.eval::<i32>(host)?,
        cells.cast(DType::I32).eval::<i32>(host)?,
        Tolerance::exact(),
    );

    let edges = Tensor::from_array(array![[-0.500_001, -0.499_999], [0.499_999, 0.500_001]]);
    let found = georeference
        .cells(&georeference.map(&edges))
        .eval::<i32>(host)?;
    assert_close(
        found,
        array![[-1, 0], [0, 1]].into_dyn(),
        Tolerance::exact(),
    );
    Ok(error)
}

/// Returns the columns and rows of a grid whose upper left pixel is `first`: `[rows, cols, 2]`.
fn grid(rows: u32, cols: u32, first: f64) -> Tensor {
    let axis = |len: u32| Tensor::arange(len as usize).cast(DType::F64) + first;
    let shape = [rows as usize, cols as usize];
    let (cols, rows) = (
        axis(cols).broadcast_to(&shape),
        axis(rows).expand_dims(1).broadcast_to(&shape),
    );
    Tensor::stack(&[&cols, &rows], -1)
}

/// Returns the height of the terrain at positions on the map, `[rows, cols, 2]`, in metres as f32.
fn height(map: &Tensor, hills: &Tensor) -> Tensor {
    // The hills get an axis in front. Their contributions are summed at once and never stored.
    let column = |at: isize| hills.slice(1, at..at + 1).expand_dims(-1);
    let tops = hills.slice(1, ..2).expand_dims(1).expand_dims(1);
    let distance = (map - &tops).square().sum(-1);
    let hill = column(2) * (-distance / (column(3).square() * 2.0)).exp();
    hill.sum(0).cast(DType::F32)
}

/// Returns the terrain coloured by height and lit from the north west: `[rows, cols, 3]` between 0
/// and 255.
fn picture(georeference: &Georeference, hills: &Tensor) -> Tensor {
    // One additional pixel on each side, for the slopes.
    let land = height(&georeference.map(&grid(ROWS + 2, COLS + 2, -1.0)), hills);
    let inner = |land: &Tensor, axis| land.slice(axis, 1..).slice(axis, ..-1);
    let (rows, cols) = (inner(&land, 1), inner(&land, 0));
    let (north, south) = (rows.slice(0, ..-2), rows.slice(0, 2..));
    let (west, east) = (cols.slice(1, ..-2), cols.slice(1, 2..));
    let here = inner(&rows, 0);
    let slope = (&east - west) + (&south - north);
    let light = (slope * 0.15 + 0.75).maximum(0.25).minimum(1.0);
    // Contour lines every ten metres: where a neighbour belongs to another ten-metre step.
    let step = |land: &Tensor| (land / 10.0).floor();
    let is_contour = step(&here).ne(step(&south)).or(step(&here).ne(step(&east)));
    let shade = (light * is_contour.select(0.8, 1.0)).expand_dims(-1);
    let share = (here / 80.0).minimum(1.0).expand_dims(-1);
    let valley = Tensor::from_array(array![70.0_f32, 130.0, 80.0]);
    let top = Tensor::from_array(array![240.0_f32, 225.0, 200.0]);
    (&valley + (top - &valley) * share) * shade
}

/// Returns whether a ring or a dot around any of the points covers a pixel: `[rows, cols]`.
fn marks(georeference: &Georeference, points: &Tensor) -> Tensor {
    let centres = georeference.pixels(points).expand_dims(1).expand_dims(1);
    let distance = (grid(ROWS, COLS, 0.0) - centres).square().sum(-1).sqrt();
    let ring = distance.ge(RING[0]).and(distance.le(RING[1]));
    ring.or(distance.le(DOT)).any(0)
}

fn write_png(path: &Path, image: &ArrayD<u32>) -> Result<(), Box<dyn Error>> {
    let bytes = image
        .iter()
        .map(|&value| u8::try_from(value))
        .collect::<Result<Vec<u8>, _>>()?;
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), COLS, ROWS);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&bytes)?;
    Ok(writer.finish()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let host = Host::new();
    let georeference = Georeference::parse(WORLD_FILE)?;
    let error = check(&georeference, &host)?;
    println!("100000 points to the map and back: error at most {error:.1e} pixels");

    let hills = Tensor::from_vec(&[HILLS.len(), 4], HILLS.concat());
    let points = hills.slice(1, ..2);
    let pixels = georeference.pixels(&points).eval::<f64>(&host)?;
    let cells = georeference.cells(&points).eval::<i32>(&host)?;
    println!("       map x        map y      column       row   in pixel");
    for (point, hill) in HILLS.iter().enumerate() {
        let (at, cell) = (|axis| pixels[[point, axis]], |axis| cells[[point, axis]]);
        let (x, y, col, row) = (hill[0], hill[1], at(0), at(1));
        println!(
            "{x:12.2} {y:12.2} {col:11.3} {row:9.3}   ({}, {})",
            cell(0),
            cell(1)
        );
    }

    let yellow = Tensor::from_array(array![255.0_f32, 225.0, 30.0]);
    let marked = marks(&georeference, &points)
        .expand_dims(-1)
        .select(yellow, picture(&georeference, &hills));
    let image = marked.round().cast(DType::U32).eval::<u32>(&host)?;
    let path = folder.join("georeference.png");
    write_png(&path, &image)?;
    // Map programs look for the world file next to the image, under the same name.
    fs::write(path.with_extension("pgw"), WORLD_FILE)?;
    println!("wrote {} and its world file", path.display());
    Ok(())
}
