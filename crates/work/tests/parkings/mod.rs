//! Tests of the crew, each under each way of parking.

/// Makes each of these functions two tests: it is given the way of parking.
macro_rules! tests {
    ($($test:ident,)+) => {
        mod futex {
            $( #[test] fn $test() { super::$test(super::Parking::Futex); } )+
        }
        mod monitor {
            $( #[test] fn $test() { super::$test(super::Parking::Monitor); } )+
        }
    };
}

pub(crate) use tests;
