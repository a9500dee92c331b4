//! Flags of all load generators: duration, number of clients, placement and output.

use crate::exit::Exit;
use crate::place::{PlaceArgs, seconds};
use crate::surroundings::{self, Form};
use apps::load::{CLIENTS_MAX, DEPTH_MAX, Load, Mix};
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

/// Duration, clients and output of a load generator.
#[derive(Args, Debug)]
pub struct LoadArgs {
    /// Run for this many seconds
    #[arg(short = 'l', value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub time: Duration,
    /// Run this many clients, with one connection each
    #[arg(short = 'c', value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX as i64))]
    pub clients: u32,
    /// Keep this many requests of each client in flight
    #[arg(short = 'P', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=DEPTH_MAX as i64))]
    pub depth: u32,
    /// Print one JSON object instead of the table
    #[arg(short = 'j', long)]
    pub json: bool,
    #[command(flatten)]
    pub place: PlaceArgs,
}

impl LoadArgs {
    /// Runs a workload between the two ends that the flags select.
    pub fn play<M: Mix>(&self, words: &[OsString], mix: M) -> anyhow::Result<Exit> {
        let place = self.place.place(words, M::PORT)?;
        let (clients, depth) = (self.clients as usize, self.depth as usize);
        let (time, json) = (self.time, self.json);
        surroundings::measured(Form::of(json), |out| {
            place.play(&mut Load { mix, time, clients, depth, json, out, report: None })
        })
    }
}
