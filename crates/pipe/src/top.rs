//! `top`: finds the flows, addresses, types or VLANs with the most frames or bytes.

use crate::count::Say;
use crate::flow::{Flow, Ip, show};
use crate::rate::on_wire;
use crate::sketch::{Entry, Sketch};
use crate::stage::StageError;
use crate::{Frames, Stage};
use std::fmt;
use std::fmt::Write;
use std::str::FromStr;
use wire::Mac;

/// Field by which frames are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Addresses, protocol and ports of an IP packet, or MAC addresses and EtherType of any other
    /// frame.
    Flow,
    /// Destination MAC address.
    Dst,
    /// Source MAC address.
    Src,
    /// EtherType after VLAN tags.
    Type,
    /// VLAN identifier of the outermost tag.
    Vlan,
    /// Source and destination IP address.
    Ip,
}

impl Field {
    const ALL: [Field; 6] = [Field::Flow, Field::Dst, Field::Src, Field::Type, Field::Vlan, Field::Ip];

    /// Returns the name of the field in command-line options.
    pub const fn name(self) -> &'static str {
        match self {
            Field::Flow => "flow",
            Field::Dst => "dst",
            Field::Src => "src",
            Field::Type => "type",
            Field::Vlan => "vlan",
            Field::Ip => "ip",
        }
    }

    fn of(self, flow: &Flow) -> Part {
        match self {
            Field::Flow => flow.ip.map_or(Part::Macs(flow.src, flow.dst, flow.ethertype.0), Part::Flow),
            Field::Dst => Part::Mac(flow.dst),
            Field::Src => Part::Mac(flow.src),
            Field::Type => Part::Type(flow.ethertype.0),
            Field::Vlan => flow.vlan.map_or(Part::None, Part::Vlan),
            Field::Ip => flow.ip.map_or(Part::None, |ip| Part::Pair(Ip { ports: None, proto: wire::Proto(0), ..ip })),
        }
    }
}

impl FromStr for Field {
    type Err = String;

    fn from_str(word: &str) -> Result<Field, String> {
        let names = Field::ALL.map(Field::name).join(", ");
        Field::ALL
            .into_iter()
            .find(|field| field.name() == word)
            .ok_or(format!("unknown field '{word}': must be one of {names}"))
    }
}

/// Value of a [`Field`] in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    None,
    Mac(Mac),
    Type(u16),
    Vlan(u16),
    Pair(Ip),
    Flow(Ip),
    Macs(Mac, Mac, u16),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::None => f.write_str("-"),
            Part::Mac(mac) => mac.fmt(f),
            Part::Type(ty) => write!(f, "{ty:04X}"),
            Part::Vlan(vlan) => vlan.fmt(f),
            Part::Pair(ip) => write!(f, "{} > {}", show(ip.src), show(ip.dst)),
            Part::Flow(ip) => ip.fmt(f),
            Part::Macs(src, dst, ty) => write!(f, "{src} > {dst} {ty:04X}"),
        }
    }
}

/// Configuration of `top`.
#[derive(Debug, Clone)]
pub struct TopConfig {
    /// Fields that together form the key by which frames are grouped.
    pub fields: Vec<Field>,
    /// Maximum number of keys in the report.
    pub show: usize,
    /// Number of keys that the table can contain.
    pub table: usize,
    /// True to count bytes on the wire instead of frames.
    pub by_bytes: bool,
    /// True to print the report as JSON.
    pub json: bool,
    /// True to pass the frames to the next stage.
    pub pass: bool,
}

/// Stage that finds the keys with the most frames or bytes.
pub struct Top {
    config: TopConfig,
    sketch: Sketch<Box<[Part]>>,
    say: Say,
}

impl Top {
    /// Creates the stage, which prints its report with `say` at the end.
    pub fn new(config: TopConfig, say: Say) -> Top {
        let sketch = Sketch::new(config.table);
        Top { config, sketch, say }
    }

    fn unit(&self) -> &'static str {
        if self.config.by_bytes { "wire_bytes" } else { "frames" }
    }

    /// Returns the names and values of the fields of an entry.
    fn words<'a>(&self, entry: &'a Entry<Box<[Part]>>) -> impl Iterator<Item = (&'static str, String)> + use<'a> {
        let fields: Vec<Field> = self.config.fields.clone();
        fields.into_iter().zip(entry.key.iter()).map(|(field, part)| (field.name(), part.to_string()))
    }

    fn json(&self) -> String {
        let row = |entry: &Entry<Box<[Part]>>| {
            let mut row = serde_json::Map::new();
            row.extend(self.words(entry).map(|(name, word)| (name.to_owned(), word.into())));
            row.insert(self.unit().to_owned(), entry.weight.into());
            row.insert("error".to_owned(), entry.error.into());
            serde_json::Value::Object(row)
        };
        let top: Vec<_> = self.sketch.heaviest().into_iter().take(self.config.show).map(row).collect();
        serde_json::json!({ "total": self.sketch.total(), "unit": self.unit(), "bound": self.sketch.bound(), "top": top })
            .to_string()
    }

    fn table(&self) -> String {
        let names: Vec<&str> = self.config.fields.iter().map(|field| field.name()).collect();
        let (total, bound) = (self.sketch.total(), self.sketch.bound());
        let mut out = format!("{:>12} {:>6} {:>10}  {}\n", self.unit(), "share", "error", names.join("  "));
        for entry in self.sketch.heaviest().into_iter().take(self.config.show) {
            let words: Vec<String> = self.words(entry).map(|(_, word)| word).collect();
            let share = entry.weight as f64 * 100.0 / total.max(1) as f64;
            // Writing to a string does not fail.
            let _ = writeln!(out, "{:>12} {share:>5.1}% {:>10}  {}", entry.weight, entry.error, words.join("  "));
        }
        let _ = write!(out, "{total:>12} total; ");
        match self.sketch.evicted() {
            0 => out += "all keys fit into the table: the figures are exact",
            _ => _ = write!(out, "keys not in the table: at most {bound} each (more keys with --table)"),
        }
        out
    }
}

impl Stage for Top {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        for ((bytes, _), wire_len) in frames.iter().zip(frames.wire_lens()) {
            let Some(flow) = Flow::of(bytes) else { continue };
            let key = self.config.fields.iter().map(|field| field.of(&flow)).collect();
            self.sketch.add(key, if self.config.by_bytes { on_wire(wire_len) } else { 1 });
        }
        if !self.config.pass {
            frames.clear();
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Frames) -> Result<(), StageError> {
        let text = if self.config.json { self.json() } else { self.table() };
        Ok((self.say)(&text)?)
    }

    fn passes(&self) -> bool {
        self.config.pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::flow::tests::udp;
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    fn top(fields: &[Field], table: usize, json: bool, frames: &[Vec<u8>]) -> String {
        let reported = Arc::new(Mutex::new(String::new()));
        let copy = reported.clone();
        let config = TopConfig { fields: fields.to_vec(), show: 2, table, by_bytes: false, json, pass: false };
        let mut stage = Top::new(
            config,
            Box::new(move |text: &str| {
                copy.lock().unwrap().push_str(text);
                Ok(())
            }),
        );
        let mut batch = Frames::new();
        frames.iter().for_each(|frame| assert!(batch.push(frame, Time::None)));
        stage.run(&mut batch).unwrap();
        assert!(batch.is_empty());
        stage.finish(&mut batch).unwrap();
        reported.lock().unwrap().clone()
    }

    fn some() -> Vec<Vec<u8>> {
        [udp(1, 7, 2, 9), udp(1, 7, 2, 9), udp(1, 8, 2, 9), udp(3, 8, 2, 9)].to_vec()
    }

    #[test]
    fn the_heaviest_keys_are_listed_first() {
        let expected = "      frames  share      error  flow
           2  50.0%          0  10.0.0.1.7 > 10.0.0.2.9 UDP
           1  25.0%          0  10.0.0.";
        let reported = top(&[Field::Flow], 100, false, &some());
        assert!(reported.starts_with(expected), "{reported}");
        assert!(reported.ends_with("4 total; all keys fit into the table: the figures are exact"), "{reported}");
        let reported = top(&[Field::Src, Field::Ip], 100, false, &some());
        assert!(reported.contains("3  75.0%          0  02:00:00:00:00:01  10.0.0.1 > 10.0.0.2\n"), "{reported}");
    }

    #[test]
    fn a_small_table_reports_its_error() {
        let reported = top(&[Field::Flow], 1, false, &some());
        assert!(reported.contains("           4 100.0%          3  10.0.0.3.8"), "{reported}");
        assert!(reported.ends_with("keys not in the table: at most 4 each (more keys with --table)"), "{reported}");
        let json: serde_json::Value = serde_json::from_str(&top(&[Field::Dst, Field::Vlan], 9, true, &some())).unwrap();
        assert_eq!(
            json["top"][0],
            serde_json::json!({"dst": "02:00:00:00:00:02", "vlan": "-", "frames": 4, "error": 0})
        );
        assert_eq!((&json["total"], &json["bound"]), (&4.into(), &0.into()));
    }

    proptest! {
        #[test]
        fn any_frames_are_reported(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..120), 0..50), table in 0..9_usize) {
            for json in [true, false] {
                top(&Field::ALL, table, json, &frames);
            }
        }
    }
}
