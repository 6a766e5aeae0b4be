//! What threads register as their role, as others can see it.

use gleaner::{Role, set_thread_role};

fn name_of_this_thread() -> String {
    let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
    name.trim_end().to_string()
}

#[test]
fn a_role_is_in_the_name_of_the_thread() {
    for role in Role::ALL {
        let name = std::thread::Builder::new()
            .name("mine".into())
            .spawn(move || {
                set_thread_role(role);
                name_of_this_thread()
            })
            .unwrap()
            .join()
            .unwrap();
        let mut whole = format!("gleaner-{role}");
        whole.truncate(15);
        assert_eq!(name, whole);
    }
    // The last one counts.
    set_thread_role(Role::Finalizer);
    set_thread_role(Role::Vm);
    assert_eq!(name_of_this_thread(), "gleaner-vm");
}
