//! The PC's clock (Motorola MC146818A; century in register 0x32).

use x86_64::instructions::port::Port;

/// Seconds since 1970 by the machine's clock at this moment, 0 if there is none.
pub fn wall_clock() -> u64 {
    let absent = cmos(0x0a) == 0xff && cmos(0x0b) == 0xff;
    if absent {
        return 0;
    }
    let mut last = clock_registers();
    // Two equal readings without an update between them.
    for _ in 0..100 {
        let again = clock_registers();
        if cmos(0x0a) & 0x80 == 0 && again == last {
            break;
        }
        last = again;
    }
    let mode = cmos(0x0b);
    let number = |raw: u8| {
        if mode & 4 != 0 {
            raw
        } else {
            (raw >> 4) * 10 + (raw & 15)
        }
    };
    let [second, minute, hour, day, month, year, century] = last;
    let mut hours = number(hour & 0x7f);
    if mode & 2 == 0 {
        hours = hours % 12 + if hour & 0x80 != 0 { 12 } else { 0 };
    }
    let century = if (0x19..=0x21).contains(&century) {
        u64::from(number(century))
    } else {
        20
    };
    let days = days_from_civil(
        century * 100 + u64::from(number(year)),
        u64::from(number(month)),
        u64::from(number(day)),
    );
    ((days * 24 + u64::from(hours)) * 60 + u64::from(number(minute))) * 60
        + u64::from(number(second))
}

fn cmos(register: u8) -> u8 {
    // SAFETY: the clock's index and data ports; bit 7 of the index keeps the NMI input on.
    unsafe {
        Port::<u8>::new(0x70).write(register);
        Port::<u8>::new(0x71).read()
    }
}

fn clock_registers() -> [u8; 7] {
    [0x00, 0x02, 0x04, 0x07, 0x08, 0x09, 0x32].map(cmos)
}

/// Days from 1970-01-01, for years from 1970: years counted from March, so that the leap day is the
/// last.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    days.saturating_sub(719_468)
}
