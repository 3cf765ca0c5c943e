//! Which sizes of blocks serve a device best.
//!
//! Role: a small table, `tiles.txt`, keyed by vendor, device, driver and shape class; `cargo xtask tune` writes its lines. A device
//! that it does not name gets the sizes that are good on most.
//! Method: the first line that fits is taken. A vendor or a device is its PCI number; `*` fits any; a driver fits by its beginning.

use std::str::FromStr;
use std::sync::LazyLock;

use crate::Adapter;
use crate::nest::{ShapeClass, Tile};

/// The table that was measured.
const TABLE: &str = include_str!("tiles.txt");

/// The sizes of blocks for each class of shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tiles(Vec<(ShapeClass, Tile)>);

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    vendor: Option<u32>,
    device: Option<u32>,
    driver: String,
    class: ShapeClass,
    tile: Tile,
}

impl Default for Tiles {
    fn default() -> Self {
        Self::fitting(|_| false)
    }
}

impl Tiles {
    /// Those for an adapter.
    pub(crate) fn of(adapter: &Adapter) -> Self {
        Self::fitting(|line| line.fits(adapter))
    }

    /// The sizes for a class.
    pub(crate) fn tile(&self, class: ShapeClass) -> Tile {
        let found = self.0.iter().find(|(known, _)| *known == class);
        found.map_or_else(|| default(class), |(_, tile)| *tile)
    }

    /// The same with other sizes for a class.
    pub(crate) fn with(mut self, class: ShapeClass, tile: Tile) -> Self {
        self.0.retain(|(known, _)| *known != class);
        self.0.push((class, tile));
        self
    }

    fn fitting(fits: impl Fn(&Line) -> bool) -> Self {
        static LINES: LazyLock<Vec<Line>> = LazyLock::new(|| lines(TABLE).collect());
        let tile = |class| {
            let line = LINES.iter().find(|line| line.class == class && fits(line));
            line.map_or_else(|| default(class), |line| line.tile)
        };
        Self(ShapeClass::ALL.map(|class| (class, tile(class))).into())
    }
}

impl Line {
    fn fits(&self, adapter: &Adapter) -> bool {
        self.vendor.is_none_or(|vendor| vendor == adapter.vendor)
            && self.device.is_none_or(|device| device == adapter.device)
            && (self.driver == "*" || adapter.driver.starts_with(&self.driver))
    }
}

/// The line of the table that gives a class on an adapter these sizes.
#[must_use]
pub fn line(adapter: &Adapter, class: ShapeClass, tile: &Tile) -> String {
    let driver = adapter.driver.split_whitespace().next().unwrap_or("*");
    format!(
        "{:#06x} {:#06x} {driver} {} {} {} {} {} {}",
        adapter.vendor,
        adapter.device,
        class.name(),
        tile.block_rows,
        tile.block_cols,
        tile.block_inner,
        tile.thread_rows,
        tile.thread_cols
    )
}

/// The sizes worth trying for a class.
#[must_use]
pub fn candidates(class: ShapeClass) -> Vec<Tile> {
    const INNER: [u32; 2] = [8, 16];
    let blocks: &[[u32; 4]] = match class {
        ShapeClass::Large | ShapeClass::Square => &[
            [32, 32, 4, 4],
            [64, 64, 4, 4],
            [64, 64, 8, 4],
            [128, 64, 8, 4],
            [64, 64, 8, 8],
            [128, 64, 8, 8],
            [128, 128, 8, 8],
        ],
        ShapeClass::Tall => &[
            [64, 16, 1, 16],
            [128, 16, 1, 16],
            [256, 16, 1, 16],
            [128, 16, 2, 16],
            [256, 16, 2, 16],
            [256, 16, 4, 16],
        ],
        ShapeClass::Wide => &[
            [16, 64, 16, 1],
            [16, 128, 16, 1],
            [16, 256, 16, 1],
            [16, 128, 16, 2],
            [16, 256, 16, 2],
            [16, 256, 16, 4],
        ],
        ShapeClass::Small => &[
            [16, 16, 2, 2],
            [16, 16, 4, 2],
            [32, 32, 4, 2],
            [32, 32, 4, 4],
        ],
    };
    let of = |[block_rows, block_cols, thread_rows, thread_cols]: [u32; 4]| {
        INNER.map(|block_inner| Tile {
            block_rows,
            block_cols,
            block_inner,
            thread_rows,
            thread_cols,
        })
    };
    blocks.iter().copied().flat_map(of).collect()
}

/// Sizes that are good on most devices.
fn default(class: ShapeClass) -> Tile {
    let [block_rows, block_cols, thread_rows, thread_cols] = match class {
        ShapeClass::Large => [128, 128, 8, 8],
        ShapeClass::Square => [64, 64, 4, 4],
        ShapeClass::Tall => [128, 16, 1, 16],
        ShapeClass::Wide => [16, 128, 16, 2],
        ShapeClass::Small => [16, 16, 2, 2],
    };
    Tile {
        block_rows,
        block_cols,
        block_inner: 16,
        thread_rows,
        thread_cols,
    }
}

/// The lines of a table; what begins with `#` is a remark.
fn lines(table: &str) -> impl Iterator<Item = Line> {
    let lines = table.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    // A test reads every line of the table that is built in.
    lines.filter_map(|line| line.parse().ok())
}

impl FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[vendor, device, driver, class, ref sizes @ ..] = &words[..] else {
            return Err(format!("`{line}` has no vendor, device, driver and class"));
        };
        let id = |word: &str| match word {
            "*" => Ok(None),
            _ => u32::from_str_radix(word.trim_start_matches("0x"), 16)
                .map(Some)
                .map_err(|error| format!("`{word}`: {error}")),
        };
        let sizes: Result<Vec<u32>, _> = sizes.iter().map(|size| size.parse()).collect();
        let sizes = sizes.map_err(|error| format!("`{line}`: {error}"))?;
        let &[
            block_rows,
            block_cols,
            block_inner,
            thread_rows,
            thread_cols,
        ] = &sizes[..]
        else {
            return Err(format!("`{line}` has not five sizes"));
        };
        let tile = Tile {
            block_rows,
            block_cols,
            block_inner,
            thread_rows,
            thread_cols,
        };
        let mut classes = ShapeClass::ALL.into_iter();
        let class = classes.find(|known| known.name() == class);
        match tile.fault() {
            Some(fault) => Err(format!("`{line}`: {fault}")),
            None => Ok(Self {
                vendor: id(vendor)?,
                device: id(device)?,
                driver: driver.to_owned(),
                class: class.ok_or_else(|| format!("`{line}` names no shape class"))?,
                tile,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = TABLE.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            line.parse::<Line>().unwrap();
        }
        for class in ShapeClass::ALL {
            assert_eq!(default(class).fault(), None);
        }
    }

    #[test]
    fn faults_of_a_line_are_named() {
        for (line, part) in [
            ("* * *", "no vendor"),
            ("* * * square 64 64 16 4", "five sizes"),
            ("* * * square 64 64 16 4 5", "multiples"),
            ("* * * round 64 64 16 4 4", "shape class"),
            ("g0 * * square 64 64 16 4 4", "invalid digit"),
        ] {
            let error = line.parse::<Line>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
