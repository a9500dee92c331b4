//! The profile table of the report rtems2014, byte for byte: a coverage line, a ruler, and for each
//! function its share and a logarithmic bar.
//!
//! The bar has `floor(7.52 log2(percent) + 0.25)` marks; this gives all 73 bars of the report's
//! three tables. A bar without marks is `<` below about one percent (the report has one at 1.001
//! and none at 1.033). The ruler's figures are at `floor(7.52 log2(percent))`. Shares are truncated
//! to three decimals, not rounded, since only truncation gives the shares in the report's tables
//! from whole counts (of 1697, 1451 and 2386 samples).

/// Number of marks that a bar grows by if the share doubles.
const MARKS: f64 = 7.52;
/// Offset before rounding down, which determines where the bar's first mark appears.
const AHEAD: f64 = 0.25;
/// Share below which a bar without marks is `<`, in thousandths of a percent.
const SMALL: u64 = 1017;
/// Figures of the ruler, in percent.
const FIGURES: [u32; 7] = [1, 2, 5, 10, 20, 50, 100];

/// Widths of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Width of the names; longer ones are cut at the beginning.
    pub name: usize,
    /// Width of the bars; longer ones are cut.
    pub bar: usize,
}

impl Layout {
    /// Wide enough for a module path, and for a bar up to 100 %.
    pub const WIDE: Layout = Layout { name: 44, bar: 53 };
}

/// Returns `part` of `whole` in thousandths of a percent, truncated.
pub fn share(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100_000 / u128::from(whole.max(1))) as u64
}

/// Formats thousandths of a percent as `11.137%`, in eight columns.
pub fn percent(share: u64) -> String {
    format!("{:>3}.{:03}%", share / 1000, share % 1000)
}

/// Formats the bar of a share.
pub fn bar(share: u64, width: usize) -> String {
    let marks = (MARKS * (share as f64 / 1000.0).log2() + AHEAD).floor();
    match marks {
        marks if marks >= 1.0 => "=".repeat((marks as usize).min(width)),
        _ if share < SMALL => "<".to_owned(),
        _ => String::new(),
    }
}

/// Formats the line above the table: the share of the samples with a name; the share of the
/// process's time in sampled threads; the share of those threads' time represented by samples. The
/// report's profiler prints the same three shares for an instruction trace.
pub fn coverage(coverage: u64, runtime: u64, covtime: u64) -> String {
    format!(
        "       perf disabled   coverage: {}  runtime: {}   covtime: {}\n",
        percent(coverage),
        percent(runtime),
        percent(covtime)
    )
}

/// Formats the head of the table: `title____|ratio___|1%_____2%__...|`.
pub fn head(title: &str, layout: Layout) -> String {
    let mut ruler = vec!['_'; layout.bar];
    for figure in FIGURES {
        let (at, text) = ((MARKS * f64::from(figure).log2()).floor() as usize, format!("{figure}%"));
        if let Some(places) = ruler.get_mut(at..at + text.len()) {
            places.iter_mut().zip(text.chars()).for_each(|(place, letter)| *place = letter);
        }
    }
    format!("{title:_<width$}|ratio___|{}|\n", ruler.iter().collect::<String>(), width = layout.name)
}

/// Formats a row of the table:
///
/// ```text
/// in_cksumdata                | 11.137%|==========================              |
/// ```
pub fn row(name: &str, share: u64, layout: Layout) -> String {
    let Layout { name: width, bar: bars } = layout;
    format!("{:<width$}|{}|{:<bars$}|\n", fitted(name, width), percent(share), bar(share, bars))
}

/// Returns the end of a name that is too long: the last part of a path identifies it best.
fn fitted(name: &str, width: usize) -> String {
    let length = name.chars().count();
    match length > width {
        true => std::iter::once('~').chain(name.chars().skip(length + 1 - width)).collect(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
