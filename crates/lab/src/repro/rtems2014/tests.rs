use super::*;

#[test]
fn rates_look_as_curl_prints_them() {
    let k = 1024.0;
    let shown =
        [500.0, 99_999.0, 9101.0 * k, 9999.0 * k, 97.66 * k * k, 1205.0 * k * k, 12.3 * k * k * k].map(curl_form);
    assert_eq!(shown, ["500", "99999", "9101k", "9999k", "97.6M", "1205M", "12.2G"]);
}

#[test]
fn each_row_changes_one_thing_and_the_last_all_of_them() {
    let all = variants();
    let changes = |setup: &Setup| {
        [
            setup.locks != A.locks,
            setup.clock != A.clock,
            setup.pool != A.pool,
            setup.checksum != A.checksum,
            setup.offload != A.offload,
            setup.burst != A.burst,
        ]
        .into_iter()
        .filter(|changed| *changed)
        .count()
    };
    let counted: Vec<(&str, usize)> = all.iter().map(|variant| (variant.id, changes(&variant.setup))).collect();
    let (last, single) = counted.split_last().unwrap();
    assert_eq!(single[0], ("a", 0));
    assert!(single[1..].iter().all(|(_, changed)| *changed == 1), "{counted:?}");
    assert_eq!(*last, ("all", 5));
    assert_eq!(
        counted.iter().map(|(id, _)| dload_then(id)).collect::<Vec<_>>()[..3],
        [Some(9101.0), Some(8834.0), Some(8438.0)]
    );
}
