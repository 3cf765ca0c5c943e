//! SVG charts and self-contained HTML pages, for light and dark mode.
//!
//! Role: draws what `bench` and `trace` report. A [`Figure`] is plain data that a record can store;
//! [`draw`] turns it into SVG, once for wide and once for narrow screens. Programs with charts of
//! their own draw with [`Ink`] and [`axis`].
//!
//! # Examples
//! ```
//! use charts::{Figure, Panel, Series};
//!
//! let line = Series::new("x²", (0..10).map(f64::from), |x| x * x);
//! let panel = Panel { x: "x".into(), y: "y".into(), lines: vec![line], ..Panel::default() };
//! let figure = Figure { caption: "A parabola.".into(), panels: vec![panel], ..Figure::default() };
//! let page = charts::page("Example", &charts::draw(&figure)?, "");
//! assert!(page.contains("<svg"));
//! # Ok::<(), charts::Error>(())
//! ```

pub use draw::draw;
pub use figure::{Figure, Panel, Point, Series};
pub use ink::{Canvas, Ink, drawing, picture};
pub use page::{escape, now, page};
/// The drawing library, for charts with [`Ink`]s and [`axis`] of this crate.
pub use plotters;
pub use width::{Width, for_both};

pub mod axis;
pub mod bricks;
pub mod dots;
mod draw;
mod figure;
mod icicle;
mod ink;
mod page;
pub mod units;
mod width;

/// An error of the drawing backend, as text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plot: {0}")]
pub struct Error(String);

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
