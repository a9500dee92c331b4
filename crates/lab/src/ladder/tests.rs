use super::*;
use crate::sample::Trial;
use crate::subject::Reading;
use buf::Kind;
use lock::How;
use rung::{LockKind, Settings};

fn settings(words: &str) -> Settings {
    words.parse().unwrap()
}

/// Returns each rung with the settings before and after it, if all are kept.
fn rungs() -> Vec<(&'static Step, String, String)> {
    let mut words = START.to_owned();
    let mut rungs = Vec::new();
    for step in STEPS {
        let after = format!("{words} {}", step.words);
        rungs.push((step, words.clone(), after.clone()));
        if !step.is_side() {
            words = after;
        }
    }
    rungs
}

/// Every rung changes the build or one setting, and can have an effect at its position.
#[test]
fn every_rung_changes_one_thing() {
    let mut build = None;
    for (step, before, after) in rungs() {
        let (before, after) = (settings(&before), settings(&after));
        if step.is_side() {
            assert_ne!(before, after, "{}", step.id);
            continue;
        }
        let built =
            build.replace(step.build) != Some(step.build) && !matches!(step.build, Build::Linked | Build::LinkedBursts);
        let linked = step.id == "2b.lto" || step.id == "14.send_burst";
        assert_eq!(built || linked, before == after, "{}: a build or a setting", step.id);
        if before.context != after.context {
            assert!(before.locks != LockKind::Up, "{}: with locks=up no context is fetched", step.id);
        }
        if before.clock_every != after.clock_every {
            assert!(after.clock.is_some(), "{}: a clock must be read", step.id);
        }
        if before.prefetch != after.prefetch || before.pages != after.pages {
            panic!("{}: must be measured with buffers outside the cache", step.id);
        }
    }
}

#[test]
fn the_reports_rungs_have_its_figures() {
    let then: Vec<(&str, f64)> =
        STEPS.iter().filter_map(|step| Some((step.id.split('.').next()?, step.then?.0))).collect();
    let report =
        [("0", 4753.0), ("1", 4994.0), ("2", 3209.0), ("3", 2737.0), ("4", 2517.0), ("5", 2357.0), ("6", 2399.0)];
    assert_eq!(then, report);
    for step in STEPS {
        let Some((cycles, Some(rate))) = step.then else { continue };
        let product = cycles * rate / THEN_HZ;
        assert!((0.95..=1.0).contains(&product), "{}: {product}", step.id);
    }
}

/// Checks by the rig's counters that the setting of each linked rung takes effect.
#[test]
fn each_rung_has_its_effect() {
    let acquisitions = |words: &str| SendRig::new("x", words, false).unwrap().acquisitions_per_call();
    for (step, before, after) in rungs().iter().filter(|(step, ..)| step.build == Build::Linked) {
        let (was, is) = (acquisitions(before), acquisitions(after));
        let [counted, earlier] = [after, before].map(|words| SendRig::new("x", words, false).unwrap().counted());
        let (([readings, doorbells], facts), ([_, doorbells_before], facts_before)) = (counted, earlier);
        match step.id {
            // Only Cargo's features and profile differ; the rig is the same.
            "2b.lto" => assert_eq!(settings(before), settings(after)),
            "3.context_inline" => assert_eq!(settings(after).context, How::Inline),
            "3a.context_register" => assert_eq!(settings(after).context, How::Register),
            "5.offload" => assert!(facts.offload && !facts_before.offload),
            "side.checksum" => assert!(!facts.offload && facts_before.offload),
            "7.clock_tsc" => assert!(readings > 60, "{readings} readings of 64"),
            "8.clock_burst" => assert_eq!(readings, 2),
            "9.no_clock" => assert_eq!(readings, 0),
            "10.pool_freelist" => assert_eq!([facts_before.pool, facts.pool], [Kind::Zone, Kind::Freelist]),
            "11.pool_stack" => assert_eq!([facts_before.pool, facts.pool], [Kind::Freelist, Kind::Stack]),
            "13.burst" => assert_eq!([doorbells_before, doorbells], [64, 2]),
            "side.malloc" => assert_eq!([facts_before.pool, facts.pool], [Kind::Stack, Kind::Malloc]),
            "side.heavy" => assert_eq!(settings(after).locks, LockKind::Heavy),
            "side.light" => assert_eq!(settings(after).locks, LockKind::Light),
            // The number of lock calls is the same; the kind of lock differs.
            "4.locks_up" => assert_eq!(settings(after).locks, LockKind::Up),
            "12.header_cache" => assert!(is < was, "{}: {was} to {is} acquisitions", step.id),
            id => assert!(id.starts_with("14.") || id.starts_with("cold."), "{id}: nothing shows that it happens"),
        }
        let mut rig = SendRig::new(step.id, after, false).unwrap();
        assert!(rig.trial().unwrap().ops > 0, "{}", step.id);
    }
}

#[test]
fn cold_rungs_use_more_buffers_than_the_cache_holds() {
    assert!(cache_bytes() >= 1 << 18);
    let most = if cfg!(debug_assertions) { 512 << 10 } else { 64 << 20 };
    for cache in [1 << 18, 1 << 20, 8 << 20, 32 << 20, 1 << 30] {
        let touched = steps::rotation(cache) * steps::TOUCHED;
        assert!(touched > cache || touched == most, "{cache}: {touched}");
    }
}

#[test]
fn a_product_unlike_the_tick_rate_gives_a_note() {
    let hz = timer::rate().hz;
    // 100 operations in 10 ms of wall time; the counter advances for `share` of it.
    let of = |share: f64| {
        let ticks = (hz as f64 / 100.0 * share) as u64;
        let reading = Reading { ops: 100, ticks, wall_ns: 10_000_000, cpu_ns: 10_000_000 };
        let trials = vec![Trial { round: 0, reading, disturbed: None }; 3];
        product(&Sample { trials, ..Sample::new("x") }).unwrap()
    };
    assert!((of(1.0) - 1.0).abs() < 1e-3 && product_note("x", of(0.96)).is_none());
    assert_eq!(
        product_note("x", of(0.92)).as_deref(),
        Some("x: ticks times sends per second is 0.920 of the tick rate, more than 5 % off")
    );
}

#[test]
fn without_a_source_tree_the_other_rungs_are_measured() {
    let options = Options { quick: true, rounds: Some(2), source: Some("/nonexistent".into()), ..Options::default() };
    let report = udp_send(&options, &mut |_| ()).unwrap();
    assert_eq!(report.rows.len(), STEPS.len() + COLD.len());
    for row in &report.rows {
        let step = STEPS.iter().chain(COLD).find(|step| step.id == row.id).unwrap();
        let other_build = matches!(step.build, Build::Library(_) | Build::Program(_));
        assert_eq!(row.now.is_none(), other_build, "{row:?}");
        if other_build {
            assert!(row.missing.as_ref().unwrap().contains("not a source tree"), "{row:?}");
        }
    }
    assert!(report.notes.iter().any(|note| note.contains("left out")), "{:?}", report.notes);
    let rates = &report.beside.as_ref().unwrap().sheets[0];
    assert_eq!(rates.rows.len(), report.rows.iter().filter(|row| row.now.is_some()).count());
}
