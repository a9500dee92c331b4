//! ministat's plot: a column of marks for each value, and bars `|__M_A__|` below.
//!
//! A value's column is `(value - origin) / step`. The whole width spans all points and mean +-
//! deviation of every set; the origin lies half a step below the least value. Marks of one column
//! are stacked. In a cell with marks of several sets, the numbers of the sets are ORed, so set 1
//! and set 2 together give `*`, the mark of set 3. In a bar the deviation's ends are drawn first,
//! then the line in the free cells, then M over them, then A.
//!
//! The plot is one flat array, as in the original: a mark with a column outside its row appears in
//! the next row.

use super::SYMBOLS;
use super::dataset::DataSet;

/// A plot, ready to be printed.
pub struct Chart {
    width: i32,
    span: f64,
    origin: f64,
    step: f64,
    /// Number of mark rows plus one; row 0 is never used.
    height: i32,
    paper: Vec<u8>,
    bars: Vec<Option<Vec<u8>>>,
}

impl Chart {
    /// Draws `sets` into a frame with an inner width of `width` columns.
    pub fn of(sets: &[DataSet], width: i32, separate_bars: bool) -> Chart {
        let (min, max) = sets.iter().flat_map(extremes).fold((999e99, -999e99), widen);
        let span = max - min;
        let step = span / (f64::from(width) - 1.0);
        let origin = min - 0.5 * step;
        let bars = vec![None; sets.len()];
        let mut chart = Chart { width, span, origin, step, height: 0, paper: Vec::new(), bars };
        if span != 0.0 {
            for (i, set) in sets.iter().enumerate() {
                chart.plot(set, i as u8 + 1);
                chart.bar(set, if separate_bars { i } else { 0 });
            }
        }
        chart
    }

    /// Returns the column of a value as C converts it: truncated toward zero, and the smallest int
    /// if it does not fit (x86's CVTTSD2SI).
    fn column(&self, value: f64) -> i32 {
        let column = (value - self.origin) / self.step;
        if column > -2_147_483_649.0 && column < 2_147_483_648.0 { column as i32 } else { i32::MIN }
    }

    fn plot(&mut self, set: &DataSet, mark: u8) {
        let columns: Vec<i32> = set.points().iter().map(|point| self.column(*point)).collect();
        let levels = levels(&columns);
        let height = levels.iter().max().map_or(1, |highest| highest + 1);
        if height > self.height {
            self.paper.truncate(self.cell(self.height, 0).unwrap_or(0));
            self.paper.resize(self.cell(height, 0).unwrap_or(0), 0);
        }
        self.height = height; // not the maximum of the two: a quirk of the original
        for (column, level) in columns.into_iter().zip(levels) {
            if let Some(cell) = self.cell(level, column).and_then(|index| self.paper.get_mut(index)) {
                *cell |= mark;
            }
        }
    }

    fn cell(&self, row: i32, column: i32) -> Option<usize> {
        usize::try_from(i64::from(row) * i64::from(self.width) + i64::from(column)).ok()
    }

    fn bar(&mut self, set: &DataSet, line: usize) {
        let moments = set.moments();
        let ends = [moments.mean - moments.deviation(), moments.mean + moments.deviation()].map(|end| self.column(end));
        let (median, mean) = (self.column(set.median()), self.column(moments.mean));
        let bar = self.bars[line].get_or_insert_with(|| vec![0; usize::try_from(self.width).unwrap_or(0)]);
        let mut put = |column: i32, byte: u8, only_if_free: bool| {
            if let Some(cell) = usize::try_from(column).ok().and_then(|column| bar.get_mut(column)) {
                *cell = if only_if_free && *cell != 0 { *cell } else { byte };
            }
        };
        if !moments.deviation().is_nan() {
            put(ends[1], b'|', false);
            put(ends[0], b'|', false);
            for column in ends[0].max(-1) + 1..ends[1].min(self.width) {
                put(column, b'_', true);
            }
        }
        put(median, b'M', false);
        put(mean, b'A', false);
    }

    /// Appends the frame with its contents to `out`.
    pub fn draw(&self, out: &mut Vec<u8>) {
        if self.span == 0.0 {
            out.extend(b"[no plot, span is zero width]\n");
            return;
        }
        let columns = usize::try_from(self.width).unwrap_or(0);
        let edge = [b"+".as_slice(), &vec![b'-'; columns], b"+\n"].concat();
        out.extend(&edge);
        for row in (1..self.height).rev() {
            let start = self.cell(row, 0).unwrap_or(0);
            let marks = (start..start + columns)
                .map(|index| self.paper.get(index).map_or(b' ', |mark| SYMBOLS[usize::from(*mark)]));
            frame(out, marks);
        }
        for bar in self.bars.iter().flatten() {
            frame(out, bar.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }));
        }
        out.extend(&edge);
    }
}

fn frame(out: &mut Vec<u8>, line: impl Iterator<Item = u8>) {
    out.push(b'|');
    out.extend(line);
    out.extend(b"|\n");
}

fn extremes(set: &DataSet) -> [f64; 4] {
    let moments = set.moments();
    [set.min(), set.max(), moments.mean - moments.deviation(), moments.mean + moments.deviation()]
}

/// Extends a range by a value; NaN leaves it unchanged, as its comparisons are all false.
fn widen((min, max): (f64, f64), value: f64) -> (f64, f64) {
    (if value < min { value } else { min }, if value > max { value } else { max })
}

/// Returns the row of each mark: 1 in a new column, one more while the column stays the same.
fn levels(columns: &[i32]) -> Vec<i32> {
    let (mut last, mut level) = (-1, 0);
    let climb = |column: &i32| {
        level = if *column == last { level + 1 } else { 1 };
        last = *column;
        level
    };
    columns.iter().map(climb).collect()
}
