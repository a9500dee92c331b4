use super::*;

#[test]
fn rates_look_as_curl_prints_them() {
    let k = 1024.0;
    let shown =
        [500.0, 99_999.0, 9101.0 * k, 9999.0 * k, 97.66 * k * k, 1205.0 * k * k, 12.29 * k * k * k].map(curl_form);
    assert_eq!(shown, ["500", "99999", "9101k", "9999k", "97.6M", "1205M", "12.2G"]);
}

#[test]
fn each_row_changes_one_thing_of_what_it_is_compared_with() {
    let all = variants();
    let of = |id: &str| all.iter().find(|variant| variant.id == id).unwrap();
    let changes = |variant: &Variant| {
        let (now, before) = (variant.setup, of(variant.against).setup);
        let changed = [
            now.locks != before.locks,
            now.clock != before.clock,
            now.pool != before.pool,
            now.checksum != before.checksum,
            now.offload != before.offload,
            now.burst != before.burst,
        ];
        changed.into_iter().filter(|changed| *changed).count()
    };
    let counted: Vec<(&str, usize)> = all.iter().map(|variant| (variant.id, changes(variant))).collect();
    let (last, single) = counted.split_last().unwrap();
    assert_eq!((single[0], *last), (("a", 0), ("all", 6)));
    assert!(single[1..].iter().all(|(_, changed)| *changed == 1), "{counted:?}");
    let then: Vec<Option<f64>> = all.iter().map(|variant| dload_then(variant.id)).collect();
    assert_eq!(then[..4], [Some(9101.0), Some(8834.0), Some(8438.0), None]);
}
