//! Settings of a rig of cards: the options of `nic:`, and a few of the rig's own.

use anyhow::{Context, bail, ensure};
use buf::mem::Pages;
use buf::{Kind, PoolConfig, Stride};
use port::nic::Settings;
use std::str::FromStr;

/// Bytes of data after the headroom. Together with the headroom and the cache line that the pool
/// uses itself, a buffer has 2 KiB (see [`Stride::PowerOfTwo`]).
const CLUSTER_DATA: usize = 1856;
/// Numbers of ports that a rig may have.
const PORTS: [usize; 2] = [2, 4];

/// Settings of the cards, and the rig around them. A later setting takes precedence.
#[derive(Debug, Clone)]
pub struct NicSetup {
    /// Number of ports of the bridge (`ports=`).
    pub ports: usize,
    /// Kind of the buffer pool (`pool=`).
    pub pool: Kind,
    /// Kind of pages that the buffers lie on (`pages=`).
    pub pages: Pages,
    /// Distance between buffers (`stride=odd|power2`). With `power2` it is 2 KiB, so that the
    /// buffers' first cache lines share a few cache sets, as those of the mbuf clusters in the
    /// report bridge2004.
    pub stride: Stride,
    /// Number of sent buffers, of all loops together, that wait before they are reused, oldest
    /// first (`rest=`). With 0, a sent buffer is reused at once.
    pub rest: usize,
    /// Frames that arrive at each port between two turns of the loop (`feed=`).
    pub feed: usize,
    /// Approximate number of frames of a trial (`frames=`).
    pub frames: usize,
    /// All other settings: options of `nic:`.
    options: Vec<(String, String)>,
}

impl NicSetup {
    /// Returns the settings of one card.
    ///
    /// # Errors
    /// `nic:` does not have the option, or rejects its value.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let settings = Settings::default();
        for (option, value) in &self.options {
            let name = format!("nic({option}={value}):x");
            let spec = port::Spec::parse(&name).with_context(|| name.clone())?;
            spec.port.options().for_each(|(option, value)| settings.preset(option, value));
        }
        Ok(settings)
    }

    /// Returns the numbers of two of `loops` loops: the owner of a port's receiving half and the
    /// owner of its sending half. See [`super::NicRig::shared`].
    pub(super) fn loops_of(&self, port: usize, loops: usize) -> [usize; 2] {
        match (loops, self.ports) {
            (1, _) => [0, 0],
            (_, 2) => [port, port ^ 1],
            _ => [port / 2; 2],
        }
    }

    /// Returns the configuration of the pool of a loop that has `ports` ports.
    ///
    /// # Errors
    /// Those of [`NicSetup::settings`].
    pub(super) fn pool(&self, ports: usize) -> anyhow::Result<PoolConfig> {
        let (rx, tx) = self.settings()?.rings();
        let buffers = ports * (rx + tx + 2 * buf::BURST_MAX) + self.rest;
        let (kind, pages, stride, usual) = (self.pool, self.pages, self.stride, PoolConfig::default());
        let data = if stride == Stride::PowerOfTwo { CLUSTER_DATA } else { usual.data };
        Ok(PoolConfig { buffers, kind, pages, stride, data, ..usual })
    }

    fn set(&mut self, word: &str) -> anyhow::Result<()> {
        let (key, value) = word.split_once('=').with_context(|| format!("'{word}': expected KEY=VALUE"))?;
        let wrong = |why: String| anyhow::anyhow!("{word}: {why}");
        match key {
            "ports" => self.ports = value.parse()?,
            "pool" => self.pool = value.parse().map_err(wrong)?,
            "pages" => self.pages = value.parse().map_err(wrong)?,
            "stride" => self.stride = value.parse().map_err(wrong)?,
            "rest" => self.rest = value.parse()?,
            "feed" => self.feed = value.parse()?,
            "frames" => self.frames = value.parse()?,
            _ => self.options.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }
}

impl FromStr for NicSetup {
    type Err = anyhow::Error;

    fn from_str(words: &str) -> anyhow::Result<NicSetup> {
        let (pool, pages, options) = (Kind::Freelist, Pages::Small, Vec::new());
        let (stride, rest, feed, frames) = (Stride::Odd, 0, super::ROUND, super::FRAMES);
        let mut setup = NicSetup { ports: 2, pool, pages, stride, rest, feed, frames, options };
        words.split_whitespace().try_for_each(|word| setup.set(word))?;
        ensure!(PORTS.contains(&setup.ports), "ports={}: expected one of {PORTS:?}", setup.ports);
        if !(1..=super::ROUND).contains(&setup.feed) {
            bail!("feed={}: expected 1 to {}", setup.feed, super::ROUND);
        }
        setup.settings()?;
        Ok(setup)
    }
}
