use super::*;
use forebay_control::state::{CallerSums, DirtyWords, MemoryWords, StoreWords};
use forebay_control::troubles::TroubleWords;
use forebay_control::waits::{CallerWords, WaitWords};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const MIB: u64 = 1 << 20;

fn caller(number: u32, waited_us: u64, dirty_mib: u64) -> CallerSums {
    CallerSums {
        caller: CallerWords {
            kind: "connection".into(),
            number,
            name: "disk.img".into(),
            text: format!("client {number} (disk.img)"),
        },
        waits: 10,
        waited_us,
        longest_us: 11_900,
        cause: "own rate".into(),
        dirty_bytes: dirty_mib * MIB,
        dirtied_bytes: dirty_mib * 30 * waited_us,
    }
}

fn state(second: u64) -> State {
    let callers = vec![caller(3, second * 800_000, 40), caller(1, 900_000, 3)];
    let waits = callers.iter().enumerate().map(|(store, sums)| WaitWords {
        caller: sums.caller.clone(),
        store: Some(store),
        ..WaitWords::default()
    });
    State {
        served: "nbd+unix:///?socket=s".into(),
        process: 4711,
        now_us: second * 1_000_000,
        connections: Some(2),
        memory: MemoryWords {
            memory_bytes: 256 * MIB,
            frames_bytes: 252 * MIB,
            free_bytes: 2 * MIB,
            object_bytes: 4096,
            elastic: None,
        },
        dirty: DirtyWords {
            dirty_bytes: 36 * MIB,
            writeback_bytes: 7 * MIB,
            background_bytes: 25 * MIB,
            threshold_bytes: 50 * MIB,
            setpoint_bytes: 44 * MIB,
            limit_bytes: 51 * MIB,
        },
        counters: [("pgsteal_kswapd".to_owned(), second * 7_000)].into(),
        stores: vec![
            StoreWords {
                dirty_bytes: 36 * MIB,
                writeback_bytes: 7 * MIB,
                written_bytes: second * 30 * MIB,
                rate_bytes_per_s: 29 * MIB,
                writes_in_flight: 4,
                throttled_us: second * 500_000,
                oldest_dirty_us: Some(4_200_000),
                ..StoreWords::default()
            },
            StoreWords::default(),
        ],
        waits: waits.collect(),
        callers,
        ..State::default()
    }
}

fn model() -> Model {
    let mut model = Model::new(state(10));
    model.note(state(11));
    model
}

fn drawn(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::screen(frame, model)).unwrap();
    text_of(terminal.backend().buffer())
}

fn press(model: &mut Model, code: KeyCode) -> Wish {
    keys::press(model, KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_screen_shows_levels_stores_callers_and_reclaim() {
    for (width, height) in [(80, 24), (120, 40), draw::LEAST] {
        let text = drawn(&model(), width, height);
        for part in [
            "process 4711), 2 clients, up 0:00:11",
            "dirty 43 MiB of 51 MiB allowed, setpoint 44 MiB",
            "limit|",
            " 30 MiB    29 MiB/s",
            "1.4 s   4.2 s",
            "50 %",
            "client 3 (disk.img)",
            "800 ms",
            "915.5 MiB",
            "kswapd 7000 pages/s",
            "q quit",
        ] {
            assert!(
                text.contains(part),
                "{part} is missing at {width}x{height}:\n{text}"
            );
        }
        assert_eq!(text.lines().count(), usize::from(height));
    }
}

#[test]
fn a_store_that_refuses_is_named_in_place_of_its_rate() {
    for (width, height) in [(80, 24), draw::LEAST] {
        let mut model = model();
        model.now.stores[0].refuses = vec![TroubleWords {
            kind: "write".into(),
            reason: "no space is left".into(),
            requests: 7,
            lasted_us: 20_300_000,
            text: "store 0 (disk.img) has refused writes for 20.3 s (7 requests)".into(),
        }];
        let text = drawn(&model, width, height);
        assert!(
            text.contains("store 0 (disk.img) has refused writes for 20.3 s"),
            "{text}"
        );
        assert!(
            text.contains("fails 20 s") && !text.contains("29 MiB/s"),
            "{text}"
        );
        assert_eq!(text.lines().count(), usize::from(height));
    }
}

#[test]
fn a_terminal_that_is_too_small_says_so() {
    for (width, height) in [(77, 24), (80, 17), (20, 5), (1, 1)] {
        let text = drawn(&model(), width, height);
        assert!(!text.contains("stores"), "{text}");
        assert!(width < 20 || text.contains("forebay top needs"), "{text}");
    }
}

#[test]
fn callers_are_sorted_as_the_user_says() {
    let first = |model: &Model| model.callers()[0].sums.caller.number;
    let mut model = model();
    assert_eq!(first(&model), 3, "who waits now");
    model.now.callers[1].waited_us = 99_000_000;
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(first(&model), 1, "who waited longest in all");
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(first(&model), 3, "who has most dirty pages");
    model.now.callers[1].dirtied_bytes += MIB << 20;
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(first(&model), 1, "who writes most");
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(model.order, model::Order::Now);
}

#[test]
fn a_store_is_chosen_and_only_those_who_wait_for_it_are_shown() {
    let mut model = model();
    press(&mut model, KeyCode::Tab);
    press(&mut model, KeyCode::Tab);
    assert_eq!(model.store, Some(1));
    let text = drawn(&model, 80, 24);
    assert!(text.contains("callers for store 1"), "{text}");
    assert!(
        text.contains("client 1") && !text.contains("client 3"),
        "{text}"
    );
    press(&mut model, KeyCode::Tab);
    assert_eq!(model.store, None);
}

#[test]
fn help_covers_the_screen_until_it_is_left_and_q_leaves() {
    let mut model = model();
    press(&mut model, KeyCode::Char('?'));
    assert!(drawn(&model, 80, 24).contains("choose a store"));
    assert_eq!(press(&mut model, KeyCode::Esc), Wish::Stay);
    assert!(!drawn(&model, 80, 24).contains("choose a store"));
    press(&mut model, KeyCode::Char('p'));
    assert!(drawn(&model, 80, 24).contains("paused"));
    assert_eq!(press(&mut model, KeyCode::Char('q')), Wish::Leave);
    assert_eq!(press(&mut model, KeyCode::Esc), Wish::Leave);
}
