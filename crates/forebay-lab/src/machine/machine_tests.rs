use super::*;

#[test]
fn every_machine_that_ships_can_be_read() {
    for (name, _) in SHIPPED {
        let machine = Machine::named(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(machine.name, *name);
        assert!(!machine.summary.is_empty(), "{name}");
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_line_and_what_is_allowed() {
    let good = SHIPPED[0].1;
    let broken = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        Machine::parse(&good.replacen(from, to, 1))
            .expect_err(to)
            .to_string()
    };
    let line_of = |text: &str| 1 + good[..good.find(text).unwrap()].matches('\n').count();
    let reported = broken("processors = 4", "processors = 0");
    assert_eq!(
        reported,
        format!(
            "line {}: processors is 0; 1 to 1024 are allowed",
            line_of("processors = 4")
        )
    );
    let reported = broken("processors = 4", "processors = -4");
    assert!(
        reported.starts_with(&format!("line {}", line_of("processors = 4"))),
        "{reported}"
    );
    let reported = broken("size = \"15M\"", "size = \"15\"");
    assert!(reported.contains("128 pages are allowed"), "{reported}");
    for size in ["16T", "16000000T"] {
        let reported = broken("size = \"15M\"", &format!("size = \"{size}\""));
        assert!(reported.contains("up to 15T are allowed"), "{reported}");
    }
    let last_page = u64::MAX >> 1;
    let marks = format!("size = \"15M\"\nmin_pages = 1\nlow_pages = 2\nhigh_pages = {last_page}");
    let reported = broken("size = \"15M\"", &marks);
    assert!(
        reported.contains("high_pages is less than the zone"),
        "{reported}"
    );
    let reported = broken("device = \"data\"", "device = \"dats\"");
    assert!(reported.contains("there are: data"), "{reported}");
    let reported = broken("model = \"HDD-A\"", "rated = { bytes_per_s = -1 }");
    let line = line_of("model = \"HDD-A\"");
    assert!(reported.starts_with(&format!("line {line}")), "{reported}");
    let reported = broken("model = \"HDD-A\"", "model = \"HDD-Z\"");
    assert!(reported.contains("USB-slow"), "{reported}");
    let reported = broken("processors = 4", "procesors = 4");
    assert!(reported.contains("procesors"), "{reported}");
}

#[test]
fn swap_fits_on_a_device_of_the_machine() {
    let text = |device: &str, kind: &str, size: &str| {
        format!(
            "name = \"m\"\nprocessors = 1\ncosts = \"2021\"\n[[nodes]]\n[[nodes.zones]]\n\
             name = \"Normal\"\nsize = \"64M\"\n[[devices]]\nname = \"disk\"\n\
             {device}\n[[file_systems]]\nname = \"data\"\ndevice = \"disk\"\n\
             kind = \"{kind}\"\n[swap]\ndevice = \"disk\"\nsize = \"{size}\"\n"
        )
    };
    let local = "rated = { capacity_bytes = \"1G\" }";
    for size in ["2G", "0", "1"] {
        let reported = Machine::parse(&text(local, "xfs", size)).expect_err(size);
        let reported = reported.to_string();
        assert!(
            reported.starts_with("line 17: ") && reported.contains("8K to the"),
            "{reported}"
        );
    }
    let reported = Machine::parse(&text("server = {}", "nfs", "1G")).expect_err("a server");
    let reported = reported.to_string();
    assert!(
        reported.starts_with("line 16: ") && reported.contains("not on a server"),
        "{reported}"
    );
}

#[test]
fn a_file_system_is_one_that_its_device_can_have() {
    let (local, server) = ("model = \"HDD-A\"", "server = {}");
    let nfs = SHIPPED.iter().find(|(name, _)| *name == "nfs-client");
    let nfs = nfs.expect("it ships").1;
    let reported = Machine::parse(&nfs.replace("kind = \"nfs\"", "kind = \"xfs\""));
    let reported = reported.expect_err("a server").to_string();
    assert!(reported.contains("nfs is allowed, not xfs"), "{reported}");
    let reported = Machine::parse(&nfs.replace(server, local));
    let reported = reported.expect_err("a disk").to_string();
    assert!(
        reported.contains("xfs, ext3, ext4, btrfs, ntfs is allowed"),
        "{reported}"
    );
    let plan = crate::run::Plan::new("nfs", "nfs-client").expect("it ships");
    let reported = plan
        .with("file_system", "xfs")
        .check()
        .expect_err("a server");
    assert!(reported.to_string().contains("nfs"), "{reported}");
}

#[test]
fn a_size_is_a_number_or_a_text_and_a_bad_one_is_named() {
    let sized = |size: &str| Machine::parse(&small(&format!("size = {size}"), ""));
    let bytes = |size| sized(size).map(|machine| machine.memory.bytes());
    assert_eq!(bytes("67108864"), bytes("\"64M\""));
    for bad in ["-1", "true", "1.5", "\"1X\""] {
        let reported = sized(bad).expect_err(bad).to_string();
        assert!(reported.contains("'size': "), "{reported}");
        assert!(reported.contains("512M"), "{reported}");
    }
}

#[test]
fn an_unknown_machine_lists_the_known_ones() {
    let reported = Machine::named("amd5")
        .expect_err("it does not exist")
        .to_string();
    assert!(
        reported.contains("amd4-512m") && reported.contains("nfs-client"),
        "{reported}"
    );
}

#[test]
fn marks_follow_the_kernel_rule() {
    let machine = Machine::named("amd4-512m").expect("it ships");
    let settings = machine.memory.settings();
    let zones = &settings[0].zones;
    let pages: u64 = zones.iter().filter_map(|zone| zone.managed_pages).sum();
    // 4 x sqrt(KiB) KiB, shared by size; 3 percent went to the kernel.
    let min_kib = (pages as f64 * 4.0).sqrt() * 4.0;
    let mins: u64 = zones
        .iter()
        .filter_map(|zone| zone.marks)
        .map(|marks| marks.min)
        .sum();
    assert!(
        (mins as f64 * 4.0 - min_kib).abs() < 10.0,
        "{mins} pages, {min_kib} KiB"
    );
    assert!(pages * 4 > 495 << 10 && pages * 4 < 498 << 10, "{pages}");
}

/// A machine of one zone and one disk of 1 GiB, with `rest` behind it.
fn small(zone: &str, rest: &str) -> String {
    format!(
        "name = \"m\"\nprocessors = 1\ncosts = \"2021\"\nkernel_share_percent = 50\n[[nodes]]\n\
         [[nodes.zones]]\nname = \"Normal\"\n{zone}\n[[devices]]\nname = \"disk\"\n\
         rated = {{ capacity_bytes = \"1G\" }}\n[[file_systems]]\nname = \"data\"\n\
         device = \"disk\"\nkind = \"xfs\"\n{rest}"
    )
}

fn message_of(text: &str) -> String {
    let refused = Machine::parse(text).map(|machine| machine.name);
    refused.expect_err(text).to_string()
}

#[test]
fn a_zone_is_measured_by_what_is_left_after_boot() {
    Machine::parse(&small("size = \"1M\"", "")).expect("128 pages are left");
    let reported = message_of(&small("size = \"1016K\"", ""));
    assert!(reported.starts_with("line 8: ") && reported.contains("127 pages after boot"));
    let marks =
        |high: u64| format!("size = \"64M\"\nmin_pages = 1\nlow_pages = 2\nhigh_pages = {high}");
    Machine::parse(&small(&marks(8_191), "")).expect("8192 pages are left");
    let reported = message_of(&small(&marks(8_192), ""));
    assert!(
        reported.starts_with("line 11: ") && reported.contains("8192 pages after boot"),
        "{reported}"
    );
}

#[test]
fn a_zone_says_what_was_taken_of_it_at_boot() {
    let two = |first: &str| {
        let other = "[[nodes]]\nzones = [{ name = \"Normal\", size = \"64M\" }]\n";
        small(&format!("size = \"64M\"\n{first}"), other)
    };
    let pages = |text: &str| {
        let memory = Machine::parse(text).expect("good").memory;
        (memory.managed_pages_of(0), memory.managed_pages_of(1))
    };
    assert_eq!(pages(&two("")), (8_192, 8_192));
    // The share of the kernel is that of the others.
    assert_eq!(pages(&two("taken = \"1M\"")), (16_128, 8_192));
    assert_eq!(pages(&two("taken = 0")), (16_384, 8_192));
    for (taken, left) in [
        ("\"64M\"", "0 pages"),
        ("\"1T\"", "0 pages"),
        ("67_000_000", "27 pages"),
    ] {
        let reported = message_of(&two(&format!("taken = {taken}")));
        assert!(
            reported.starts_with("line 9: ") && reported.contains(left),
            "{taken}: {reported}"
        );
    }
    let divided = Machine::parse(&two("taken = \"16M\""))
        .expect("good")
        .scaled(4);
    let memory = divided.expect("16 MiB").memory;
    assert_eq!(memory.managed_pages_of(0), 3_072);
}

#[test]
fn what_the_engine_would_refuse_is_refused_with_its_line() {
    let zone = "size = \"64M\"";
    let reported = message_of(&small(zone, "[[nodes]]\nzones = []\n"));
    assert!(
        reported.starts_with("line 17: ") && reported.contains("at least one zone"),
        "{reported}"
    );
    let zones = (0..16).map(|zone| format!("[[nodes.zones]]\nname = \"{zone}\"\nsize = \"1G\"\n"));
    let reported = message_of(&small(
        zone,
        &format!("[[nodes]]\n{}", zones.collect::<String>()),
    ));
    assert!(reported.contains("up to 16 in all"), "{reported}");
    let reported = message_of(&small(
        zone,
        "[dirty]\nbackground = \"1M\"\nlimit = \"4K\"\n",
    ));
    assert!(
        reported.starts_with("line 18: ") && reported.contains("at least 8K"),
        "{reported}"
    );
    Machine::parse(&small(zone, "[dirty]\nlimit = \"8K\"\n")).expect("two pages");
}

#[test]
fn a_device_has_one_file_system() {
    let other = "[[file_systems]]\nname = \"more\"\ndevice = \"disk\"\nkind = \"ext4\"\n";
    let reported = message_of(&small("size = \"64M\"", other));
    assert!(
        reported.starts_with("line 18: ") && reported.contains("'data' already"),
        "{reported}"
    );
}

#[test]
fn a_machine_is_divided_as_far_as_it_can_work() {
    let marks = "size = \"64M\"\nmin_pages = 1\nlow_pages = 2\nhigh_pages = 1000";
    let swap = "[swap]\ndevice = \"disk\"\nsize = \"16K\"\n";
    let divided = |zone: &str, rest: &str, by: u64| {
        let machine = Machine::parse(&small(zone, rest)).expect("it can be");
        machine
            .scaled(by)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(divided(marks, "", 8), Ok(()));
    let reported = divided(marks, "", 9).expect_err("910 pages are left");
    assert!(
        reported.contains("divided by 9") && reported.contains("high_pages is 1000"),
        "{reported}"
    );
    assert_eq!(divided("size = \"64M\"", swap, 2), Ok(()));
    let reported = divided("size = \"64M\"", swap, 3).expect_err("one page is left");
    assert!(reported.contains("swap has 5461 bytes"), "{reported}");
}

#[test]
fn an_empty_file_system_has_the_room_that_is_reported() {
    for name in ["amd4-512m", "laptop-usb-1024m", "srv16-5.15"] {
        let machine = Machine::named(name).expect("it ships");
        let storage = machine.storage.clone();
        let plan = &storage.file_systems[0];
        let booted =
            crate::world::simulate(&machine, forebay_kernels::Policy::default(), 1, false, &[]);
        let world = booted.expect("it can be switched on").world;
        let room_bytes = world.main_file_system().room_bytes();
        assert_eq!(storage.room_bytes_of(plan), Some(room_bytes), "{name}");
    }
}

#[test]
fn a_machine_has_what_it_says_and_the_rest_of_its_base() {
    let text = "name = \"m\"\nbase = \"uma-4.11\"\nprocessors = 2\nnodes = [{ zones = \
                [{ name = \"Normal\", size = \"64M\" }] }]\n";
    let (machine, base) = (Machine::parse(text), Machine::named("uma-4.11"));
    let (machine, base) = (machine.expect("good"), base.expect("it ships"));
    assert_eq!((machine.name.as_str(), machine.processors), ("m", 2));
    assert_eq!(machine.memory.bytes(), 64 << 20);
    assert!(machine.memory.marks_scale && machine.summary.is_empty());
    assert_eq!(machine.storage.swap, base.storage.swap);
    assert_eq!(machine.storage.file_systems, base.storage.file_systems);
}

#[test]
fn pauses_have_the_tick_of_a_machine_that_says_one() {
    let ticks_ms = |text: &str| {
        let machine = Machine::parse(text).expect("good");
        (machine.tick.as_millis(), machine.pause_tick.as_millis())
    };
    let zone = "size = \"64M\"";
    assert_eq!(ticks_ms(&small(zone, "")), (4, 1));
    let said =
        |tick_ms: u64| small(zone, "").replacen("costs", &format!("tick_ms = {tick_ms}\ncosts"), 1);
    assert_eq!(ticks_ms(&said(10)), (10, 10));
    assert_eq!(ticks_ms(&said(4)), (4, 4));
    let reported = message_of(&said(101));
    assert_eq!(reported, "line 3: tick_ms is 101; 1 to 100 are allowed");
}

#[test]
fn costs_can_be_spelled_out() {
    let zone = "size = \"64M\"";
    let spelled = |costs: &str| small(zone, "").replacen("costs = \"2021\"", costs, 1);
    let costs_of = |costs: &str| {
        let machine = Machine::parse(&spelled(costs)).expect("good");
        machine.costs.work_costs(machine.costs_percent)
    };
    let usual = costs_of("costs = \"2021\"");
    assert_eq!(costs_of("costs = { like = \"2021\" }"), usual);
    let own = costs_of("costs = { like = \"2021\", call_ns = 7, copy_bytes_per_us = 16384 }");
    assert_eq!(
        (own.call_ns, own.copy_page_ns, own.lookup_page_ns),
        (7, 250, 450)
    );
    assert_eq!(own.scan_page_ns, usual.scan_page_ns);
    let nearly_free = costs_of("costs = { like = \"none\", request_ns = 5 }");
    assert_eq!((nearly_free.request_ns, nearly_free.copy_page_ns), (5, 0));
    for (wrong, allowed) in [
        ("\"1999\"", "2011"),
        ("{ call_ns = 1 }", "`like`"),
        ("{ like = \"2021\", cal_ns = 1 }", "call_ns"),
        (
            "{ like = \"2021\", call_ns = -1 }",
            "a whole number from 0 on",
        ),
        (
            "{ like = \"2021\", call_ns = 2000000000 }",
            "0 to 1000000000",
        ),
        (
            "{ like = \"2021\", write_page_ns = 511 }",
            "at least the 512",
        ),
    ] {
        let reported = message_of(&spelled(&format!("costs = {wrong}")));
        assert!(
            reported.starts_with("line 3: ") && reported.contains(allowed),
            "{wrong}: {reported}"
        );
    }
}

#[test]
fn a_bad_base_is_refused_with_its_line() {
    let reported = message_of("name = \"m\"\nbase = \"pdp-11\"\n");
    assert!(
        reported.starts_with("line 2: ") && reported.contains("no machine 'pdp-11'"),
        "{reported}"
    );
    let reported = message_of("name = \"m\"\nprocessors = 2\n");
    assert!(reported.contains("`costs`"), "{reported}");
    // What is taken from the base counts as in the line that names it.
    let reported = message_of(
        "name = \"m\"\n\nbase = \"amd4-512m\"\ndevices = [{ name = \"d\", model = \"HDD-A\" }]\n",
    );
    assert!(
        reported.starts_with("line 3: ") && reported.contains("no device 'swap'"),
        "{reported}"
    );
}

#[test]
fn bases_that_go_round_are_refused_by_name() {
    let spelled = |name: &str| match name {
        "a" => Some("name = \"a\"\nbase = \"b\"\n"),
        "b" => Some("name = \"b\"\nbase = \"a\"\n"),
        _ => None,
    };
    let text = "name = \"m\"\nbase = \"a\"\n";
    let machine: MachineText = toml::from_str(text).expect("a machine's form");
    let error = base::complete(machine, text, spelled).expect_err("a circle");
    let reported = error.to_string();
    assert_eq!(reported, "line 2: a base leads back to itself: m, a, b, a");
}
