//! Block sizes and variants of kernels, and the table of the fastest ones per device.
//!
//! Role: plain data: [`Tile`], the classes of shapes that share sizes, [`Combination`], and the
//! table `tiles.txt` with the keys vendor, device, driver and class. `cargo xtask tune` writes its
//! lines ([`tuning`](crate::tuning)). A device without an entry uses the defaults.
//! Method: the first matching line of each class is used. Vendor and device are PCI ids; `*`
//! matches any value. A driver matches if its name begins with the text of the line.
//!
//! ```text
//!  vendor device driver class block_rows block_cols block_inner thread_rows thread_cols
//!  vendor device driver reduction tree|subgroups
//! ```

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use crate::adapter::Adapter;

/// Sizes of the blocks that workgroups compute, and of the tiles that invocations compute within a
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of the output per workgroup; a multiple of `thread_rows`.
    pub block_rows: u32,
    /// Columns of the output per workgroup; a multiple of `thread_cols`.
    pub block_cols: u32,
    /// Terms of each reduction that are staged at once; a multiple of 4.
    pub block_inner: u32,
    /// Rows of the output per invocation.
    pub thread_rows: u32,
    /// Columns of the output per invocation.
    pub thread_cols: u32,
}

/// A class of output shapes that share block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShapeClass {
    /// Enough rows and columns for many large blocks.
    Large,
    /// Neither few rows nor few columns.
    Square,
    /// At most 16 columns; a block spans all columns.
    Tall,
    /// At most 16 rows; a block spans all rows.
    Wide,
    /// At most 32 rows and 32 columns, usually in a batch.
    Small,
    /// Products of `f16` that cooperative matrices compute, in the sizes of `Large` and `Square`.
    Matrices,
}

/// A way to combine the partial results of a workgroup whose invocations share an output element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combination {
    /// A tree in workgroup memory, with a barrier for each of its levels.
    Tree,
    /// Subgroup operations, followed by one barrier. Devices without subgroups use the tree.
    Subgroups,
}

/// The sizes or the variant of the kernels of a class, as a line of the table contains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The block sizes of a class of shapes.
    Tile(ShapeClass, Tile),
    /// The combination of partial results in reductions.
    Reduction(Combination),
}

/// The built-in table of measured choices.
const TABLE: &str = include_str!("tiles.txt");

/// The choices for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tiles {
    /// The block sizes for each shape class.
    tiles: [Tile; ShapeClass::ALL.len()],
    pub(crate) combination: Combination,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TableEntry {
    vendor: Option<u32>,
    device: Option<u32>,
    driver: String,
    choice: Choice,
}

impl Default for Tiles {
    fn default() -> Self {
        Self::from_choices(&[])
    }
}

impl Tiles {
    /// Returns the choices for an adapter.
    pub(crate) fn for_adapter(adapter: &Adapter) -> Self {
        static LINES: LazyLock<Vec<TableEntry>> = LazyLock::new(|| lines(TABLE).collect());
        let fitting = LINES.iter().filter(|line| line.fits(adapter));
        let choices: Vec<Choice> = fitting.map(|line| line.choice).collect();
        Self::from_choices(&choices)
    }

    /// Returns the sizes for a class.
    pub(crate) fn tile(&self, class: ShapeClass) -> Tile {
        // The discriminants follow the order of `ALL`; a test checks the order.
        self.tiles[class as usize]
    }

    /// Takes the first choice of each class, or the default of a class without one.
    fn from_choices(choices: &[Choice]) -> Self {
        let tile = |class| {
            let mut tiles = choices.iter().filter_map(|&choice| match choice {
                Choice::Tile(of, tile) if of == class => Some(tile),
                _ => None,
            });
            tiles.next().unwrap_or_else(|| default(class))
        };
        let mut combinations = choices.iter().filter_map(|&choice| match choice {
            Choice::Reduction(combination) => Some(combination),
            Choice::Tile(..) => None,
        });
        Self {
            tiles: ShapeClass::ALL.map(tile),
            combination: combinations.next().unwrap_or(Combination::Subgroups),
        }
    }
}

impl TableEntry {
    fn fits(&self, adapter: &Adapter) -> bool {
        self.vendor.is_none_or(|vendor| vendor == adapter.vendor)
            && self.device.is_none_or(|device| device == adapter.device)
            && (self.driver == "*" || adapter.driver.starts_with(&self.driver))
    }
}

impl Tile {
    /// Maximum number of rows or columns of an output that counts as narrow.
    pub(crate) const NARROW: usize = 16;

    /// Returns the numbers of invocations along the rows and the columns of a block; 0 for invalid
    /// sizes.
    pub(crate) fn threads(&self) -> [u32; 2] {
        let along = |block: u32, thread: u32| block.checked_div(thread).unwrap_or(0);
        [
            along(self.block_rows, self.thread_rows),
            along(self.block_cols, self.thread_cols),
        ]
    }

    /// Returns the number of invocations of a workgroup. Saturates at `u32::MAX`, which no device
    /// accepts.
    #[must_use]
    pub fn invocations(&self) -> u32 {
        self.threads().into_iter().fold(1, u32::saturating_mul)
    }

    /// Returns the rows and columns of a block.
    pub(crate) fn block(&self) -> [u32; 2] {
        [self.block_rows, self.block_cols]
    }

    /// Returns the rows and columns per invocation.
    pub(crate) fn thread(&self) -> [u32; 2] {
        [self.thread_rows, self.thread_cols]
    }

    /// Returns the number of neighbouring elements along a side (0: rows, 1: columns) that are
    /// staged as one vector.
    pub(crate) fn vector(&self, side: usize) -> u32 {
        let mut widths = [4, 2].into_iter();
        let fits = |width: &u32| self.thread()[side].is_multiple_of(*width);
        widths.find(fits).unwrap_or(1)
    }

    /// Returns the distance between two terms in workgroup memory, in vectors. It is one more than
    /// the vectors of a term, because neighbouring invocations would otherwise access the same
    /// memory bank:
    ///
    /// ```text
    ///  term 0: | v0 v1 v2 v3 | pad |
    ///  term 1: | v0 v1 v2 v3 | pad |      stride = 5
    /// ```
    pub(crate) fn stride(&self, side: usize) -> u32 {
        self.block()[side] / self.vector(side) + 1
    }

    /// Returns the first violated rule of the sizes, or `None` if the sizes are valid.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        /// Maximum number of rows, columns and staged terms of a block, and of invocations of a
        /// workgroup. No device has enough workgroup memory or invocations for more.
        const LARGEST: u32 = 1024;
        /// Maximum number of elements per invocation. No device has enough registers for more.
        const MOST_ELEMENTS: u32 = 128;
        let [rows, cols] = self.thread();
        let divides = |part: u32, whole: u32| part > 0 && whole > 0 && whole.is_multiple_of(part);
        if !divides(rows, self.block_rows) || !divides(cols, self.block_cols) {
            Some("block sides must be multiples of the tile sides")
        } else if !divides(4, self.block_inner) {
            Some("the number of staged terms must be a multiple of 4")
        } else if [self.block_rows, self.block_cols, self.block_inner]
            .into_iter()
            .any(|side| side > LARGEST)
        {
            Some("block sides and staged terms must be at most 1024")
        } else if rows.saturating_mul(cols) > MOST_ELEMENTS {
            Some("an invocation must compute at most 128 elements")
        } else if self.invocations() > LARGEST {
            Some("a workgroup must have at most 1024 invocations")
        } else {
            None
        }
    }

    /// Adapts the sizes to an output of `rows × cols`. A narrow side becomes exactly as wide as the
    /// output. Square blocks keep their area but change their shape if the output is narrower than
    /// the block.
    pub(crate) fn fitted(self, class: ShapeClass, [rows, cols]: [usize; 2]) -> Self {
        let side = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        match class {
            ShapeClass::Tall => Self {
                block_cols: side(cols),
                thread_cols: side(cols),
                ..self
            },
            ShapeClass::Wide => Self {
                block_rows: side(rows),
                thread_rows: side(rows),
                ..self
            },
            ShapeClass::Square | ShapeClass::Matrices => {
                let mut tile = self;
                while 2 * cols <= tile.block_cols as usize && tile.block_cols > 4 * tile.thread_cols
                {
                    tile.block_cols /= 2;
                    tile.block_rows *= 2;
                }
                while 2 * rows <= tile.block_rows as usize && tile.block_rows > 4 * tile.thread_rows
                {
                    tile.block_rows /= 2;
                    tile.block_cols *= 2;
                }
                tile
            }
            ShapeClass::Large | ShapeClass::Small => self,
        }
    }
}

impl ShapeClass {
    /// All classes, in the order of their discriminants.
    pub const ALL: [Self; 6] = [
        Self::Large,
        Self::Square,
        Self::Tall,
        Self::Wide,
        Self::Small,
        Self::Matrices,
    ];

    /// Returns the class's name in the table of tiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Square => "square",
            Self::Tall => "tall",
            Self::Wide => "wide",
            Self::Small => "small",
            Self::Matrices => "matrices",
        }
    }
}

/// Returns the default sizes of a class. Those of `Large` and `Square` were the fastest on an
/// NVIDIA H200. On AMD's RDNA 3, multiply-adds are 85 % and 82 % of the instructions of their main
/// loops (`benches/testdata/machine_code.txt`).
pub(crate) fn default(class: ShapeClass) -> Tile {
    let [block_rows, block_cols, thread_rows, thread_cols] = match class {
        ShapeClass::Large => [128, 64, 8, 8],
        ShapeClass::Square | ShapeClass::Matrices => [64, 64, 8, 4],
        ShapeClass::Tall => [128, 16, 1, 16],
        ShapeClass::Wide => [16, 128, 16, 2],
        ShapeClass::Small => [16, 16, 2, 2],
    };
    let block_inner = match class {
        // Two products of 16 × 16 matrices between two barriers.
        ShapeClass::Matrices => 32,
        _ => 16,
    };
    Tile {
        block_rows,
        block_cols,
        block_inner,
        thread_rows,
        thread_cols,
    }
}

/// Checks that each line of a table can be parsed.
pub(crate) fn check(table: &str) -> Result<(), String> {
    entries(table).try_for_each(|line| line.parse::<TableEntry>().map(drop))
}

/// Parses the lines of a table.
fn lines(table: &str) -> impl Iterator<Item = TableEntry> {
    // Invalid lines are skipped; a test parses every line of the built-in table.
    entries(table).filter_map(|line| line.parse().ok())
}

/// Returns the lines of a table that are neither empty nor comments, which begin with `#`.
fn entries(table: &str) -> impl Iterator<Item = &str> {
    let lines = table.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

impl FromStr for TableEntry {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[vendor, device, driver, class, ref values @ ..] = &words[..] else {
            return Err(format!("`{line}`: no vendor, device, driver and class"));
        };
        let id = |word: &str| match word {
            "*" => Ok(None),
            _ => u32::from_str_radix(word.trim_start_matches("0x"), 16)
                .map(Some)
                .map_err(|error| format!("`{word}`: {error}")),
        };
        let choice = Choice::parse(class, values).map_err(|error| format!("`{line}`: {error}"))?;
        Ok(Self {
            vendor: id(vendor)?,
            device: id(device)?,
            driver: driver.to_owned(),
            choice,
        })
    }
}

impl Choice {
    /// The class of reductions in the table.
    pub const REDUCTION: &'static str = "reduction";

    /// Parses the words of a line that follow the class.
    fn parse(class: &str, values: &[&str]) -> Result<Self, String> {
        if class == Self::REDUCTION {
            let mut known = Combination::ALL.into_iter();
            let combination = known.find(|known| values == [known.name()]);
            let combination = combination.ok_or("expected `tree` or `subgroups`")?;
            return Ok(Self::Reduction(combination));
        }
        let mut classes = ShapeClass::ALL.into_iter();
        let class = classes.find(|known| known.name() == class);
        let class = class.ok_or("unknown class")?;
        let sizes: Result<Vec<u32>, _> = values.iter().map(|size| size.parse()).collect();
        let sizes = sizes.map_err(|error| error.to_string())?;
        let &[
            block_rows,
            block_cols,
            block_inner,
            thread_rows,
            thread_cols,
        ] = &sizes[..]
        else {
            return Err("expected five sizes".to_owned());
        };
        let tile = Tile {
            block_rows,
            block_cols,
            block_inner,
            thread_rows,
            thread_cols,
        };
        match tile.fault() {
            Some(fault) => Err(fault.to_owned()),
            None => Ok(Self::Tile(class, tile)),
        }
    }
}

/// Writes the class and the values as in a line of the table.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reduction(combination) => {
                write!(f, "{} {}", Self::REDUCTION, combination.name())
            }
            Self::Tile(class, tile) => write!(
                f,
                "{} {} {} {} {} {}",
                class.name(),
                tile.block_rows,
                tile.block_cols,
                tile.block_inner,
                tile.thread_rows,
                tile.thread_cols
            ),
        }
    }
}

impl Combination {
    /// All combinations.
    pub const ALL: [Self; 2] = [Self::Tree, Self::Subgroups];

    /// Returns the combination's name in the table of tiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Subgroups => "subgroups",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        assert_eq!(check(TABLE), Ok(()));
        assert!(check("# remark\nno table\n").is_err());
        for line in entries(TABLE) {
            let entry: TableEntry = line.parse().unwrap();
            assert!(line.ends_with(&entry.choice.to_string()), "{line}");
        }
        for combination in Combination::ALL {
            let choice = Choice::Reduction(combination);
            let entry: TableEntry = format!("* * * {choice}").parse().unwrap();
            assert_eq!(entry.choice, choice);
        }
        for class in ShapeClass::ALL {
            assert_eq!(default(class).fault(), None);
            assert_eq!(Tiles::default().tile(class), default(class));
        }
    }

    #[test]
    fn the_first_choice_of_a_class_is_taken() {
        let small = Tile {
            block_inner: 8,
            ..default(ShapeClass::Small)
        };
        let chosen = Tiles::from_choices(&[
            Choice::Reduction(Combination::Tree),
            Choice::Tile(ShapeClass::Small, small),
            Choice::Reduction(Combination::Subgroups),
            Choice::Tile(ShapeClass::Small, default(ShapeClass::Small)),
        ]);
        assert_eq!(chosen.combination, Combination::Tree);
        assert_eq!(chosen.tile(ShapeClass::Small), small);
        assert_eq!(chosen.tile(ShapeClass::Tall), default(ShapeClass::Tall));
        assert_eq!(Tiles::default().combination, Combination::Subgroups);
    }

    #[test]
    fn faults_of_a_line_are_named() {
        for (line, part) in [
            ("* * *", "no vendor"),
            ("* * * square 64 64 16 4", "five sizes"),
            ("* * * square 64 64 16 4 5", "multiples"),
            ("* * * round 64 64 16 4 4", "unknown class"),
            ("* * * reduction ring", "`tree` or `subgroups`"),
            ("* * * reduction tree tree", "`tree` or `subgroups`"),
            ("g0 * * square 64 64 16 4 4", "invalid digit"),
        ] {
            let error = line.parse::<TableEntry>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
