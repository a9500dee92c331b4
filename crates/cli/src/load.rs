//! What all workloads share: how long, how many clients, where, and how it is printed.

use crate::exit::Exit;
use crate::place::{PlaceArgs, seconds};
use crate::surroundings::{self, Form};
use apps::load::{CLIENTS_MAX, DEPTH_MAX, Load, Mix};
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

/// How long, how many, and how it is printed: of every workload.
#[derive(Args, Debug)]
pub struct LoadArgs {
    /// Seconds
    #[arg(short = 'l', value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub time: Duration,
    /// Clients, each with a connection
    #[arg(short = 'c', value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX as i64))]
    pub clients: u32,
    /// Requests that each has under way
    #[arg(short = 'P', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=DEPTH_MAX as i64))]
    pub depth: u32,
    /// One JSON object instead of the table
    #[arg(short = 'j', long)]
    pub json: bool,
    #[command(flatten)]
    pub place: PlaceArgs,
}

impl LoadArgs {
    /// Runs a workload where the flags say.
    pub fn play<M: Mix>(&self, words: &[OsString], mix: M) -> anyhow::Result<Exit> {
        let place = self.place.place(words, M::PORT)?;
        let (clients, depth) = (self.clients as usize, self.depth as usize);
        let (time, json) = (self.time, self.json);
        surroundings::measured(Form::of(json), |out| {
            place.play(&mut Load { mix, time, clients, depth, json, out, report: None })
        })
    }
}
