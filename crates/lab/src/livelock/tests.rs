use super::*;

/// Returns the series of a mode on virtual time.
fn series(mode: Mode, options: &Options) -> Series {
    let (points, gaps) = sweep(mode, options).unwrap();
    assert_eq!(gaps, 0);
    Series::of(mode, points)
}

fn options() -> Options {
    Options { span_ms: 4, rounds: 1, timing: Timing::Virtual, ..Options::default() }
}

#[test]
fn interrupts_collapse_beyond_the_knee_and_polling_stays_flat() {
    let interrupts = series(Mode::Interrupts, &options());
    let moderated = series(Mode::Moderated, &options());
    assert!(interrupts.ratio < 0.1, "{interrupts:?}");
    assert!(moderated.ratio < 0.5, "{moderated:?}");
    let last = interrupts.points.last().unwrap();
    assert!(last.queue_full > 1e6, "dropped after work was spent: {last:?}");
    for mode in [Mode::Clock, Mode::Adaptive, Mode::Wakeup] {
        let polling = series(mode, &options());
        assert!(polling.ratio > 0.97, "{polling:?}");
        assert!(polling.points.iter().all(|point| point.queue_full == 0.0 && point.interrupts == 0.0));
        // Nothing is lost below the knee.
        let light = polling.points[2];
        assert!(light.missed == 0.0 && (light.forwarded / light.offered - 1.0).abs() < 0.02, "{light:?}");
        assert!(polling.last > 2.0 * interrupts.last);
    }
}

#[test]
fn the_cost_per_frame_is_as_configured() {
    // 1000 ns of work, two doorbells of 204, twice 60 for the drivers, and a little for polling.
    let adaptive = series(Mode::Adaptive, &options());
    let ns = 1e9 / adaptive.peak;
    assert!((1528.0..1560.0).contains(&ns), "{ns}");
    // A clock that leaves others a fifth of the time forwards four fifths.
    let clock = series(Mode::Clock, &options());
    assert!((clock.peak / adaptive.peak - 0.8).abs() < 0.04, "{} {}", clock.peak, adaptive.peak);
    let idle = Options { cost_ns: 0, ..options() };
    assert!(series(Mode::Adaptive, &idle).peak > 1.7e6);
}

#[test]
fn the_text_has_every_mode_and_load_and_the_chart_is_svg() {
    let series: Vec<Series> = Mode::ALL.into_iter().map(|mode| series(mode, &options())).collect();
    let curves = Curves { env: None, notes: notes(&options(), 3), series, obeyed: Vec::new() };
    let text = curves.text();
    assert!(Mode::ALL.iter().all(|mode| text.matches(mode.name()).count() >= 2), "{text}");
    assert_eq!(
        text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())).count(),
        LOADS.len()
    );
    assert!(text.contains("3 gaps"));
    let value: serde_json::Value = serde_json::from_str(&curves.to_json().unwrap()).unwrap();
    assert_eq!(value["series"][0]["points"].as_array().unwrap().len(), LOADS.len());
    let svg = curves.svg();
    assert_eq!(svg.matches("<polyline").count(), Mode::ALL.len());
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
}

#[test]
fn every_frame_is_accounted_for_in_real_time() {
    let options = Options { span_ms: 1, timing: Timing::Live, ..options() };
    let (points, _) = sweep(Mode::Adaptive, &options).unwrap();
    // every frame was accounted for; the rate depends on the machine
    assert_eq!(points.len(), LOADS.len());
}

#[test]
fn settings_are_measured_in_real_time_and_checked_against_their_bands() {
    let options = Options { span_ms: 5, rounds: 1, timing: Timing::Live, ..options() };
    let mut reported = 0;
    let rows = obeyed::measure(&options, |_| reported += 1).unwrap();
    assert_eq!((rows.len(), reported), (6, obeyed::spans(&options)));
    // How close the figures come depends on the machine, so `obeyed` may be either; `linerate
    // livelock` judges it.
    for (row, share) in rows.iter().zip(["20 +-5", "50 +-5", "80 +-5"]) {
        assert_eq!((row.what, row.requested.as_str()), ("CPU share of the user", share));
        assert!((0.0..=100.0).contains(&row.median) && row.range == [row.median; 2], "{row:?}");
        let requested: f64 = share.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(row.obeyed, (row.median - requested).abs() <= 5.0);
    }
    assert!(rows[3].median > 0.0 && rows[3].median < 55.0, "ticks are not more than hz: {:?}", rows[3]);
    assert!(rows[4].median > 0.0, "{:?}", rows[4]);
    assert!((9.0..=10.0).contains(&rows[5].median), "counted, not timed: {:?}", rows[5]);
    let text = obeyed::text(&rows);
    assert_eq!(text.lines().filter(|line| line.starts_with("mode=1")).count(), rows.len(), "{text}");
}
