//! Tests of the crew, each under each way of parking; those that take tasks, with each task queue as well.

use gleaner_base::options::{Parking, TaskQueue};
use gleaner_work::Crew;

/// How the threads of a crew wait and take tasks.
#[derive(Clone, Copy)]
pub struct Policies {
    pub parking: Parking,
    pub tasks: TaskQueue,
}

impl Policies {
    /// A crew that lives as long as its threads may.
    pub fn crew(self) -> &'static Crew {
        Box::leak(Box::new(Crew::with_policies(self.parking, self.tasks)))
    }
}

/// Makes each of these functions two tests, `with_tasks` four: it is given the policies.
macro_rules! tests {
    ($($test:ident),+; with_tasks: $($task_test:ident),+) => {
        mod futex {
            $( crate::parkings::test!($test, Futex, LockFree); )+
            $( crate::parkings::test!($task_test, Futex, LockFree); )+
            mod locked {
                $( crate::parkings::test!($task_test, Futex, Locked); )+
            }
        }
        mod monitor {
            $( crate::parkings::test!($test, Monitor, Locked); )+
            $( crate::parkings::test!($task_test, Monitor, Locked); )+
            mod lock_free {
                $( crate::parkings::test!($task_test, Monitor, LockFree); )+
            }
        }
    };
}

/// One test under one pair of policies.
macro_rules! test {
    ($test:ident, $parking:ident, $tasks:ident) => {
        #[test]
        fn $test() {
            crate::$test(crate::parkings::Policies {
                parking: gleaner_base::options::Parking::$parking,
                tasks: gleaner_base::options::TaskQueue::$tasks,
            });
        }
    };
}

pub(crate) use {test, tests};
