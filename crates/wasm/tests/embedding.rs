//! What a host may do wrong with an engine: use what belongs to another, answer what was not asked, panic, and take the engine
//! away while its code runs.

mod assembly;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use gleaner::Heap;
use gleaner_wasm::{
    Engine, Extern, Function, HeapType, InstanceId, Module, ObjectKind, RefType, Signature, Thrown,
    Trap, ValType, Value,
};

use assembly::assemble;

fn engine() -> Engine {
    Engine::new(Heap::builder().limit(4 << 20), true).unwrap()
}

fn any() -> ValType {
    ValType::Ref(RefType {
        nullable: true,
        heap: HeapType::Any,
    })
}

const HOST: &str = r#"(module (import "host" "call" (func $host (param anyref) (result anyref)))
    (type $box (struct (field i64)))
    (func (export "make") (result anyref) (struct.new $box (i64.const 7)))
    (func (export "get") (param anyref) (result i64) (struct.get $box 0 (ref.cast (ref $box) (local.get 0))))
    (func (export "call") (param anyref) (result anyref) (call $host (local.get 0)))
    (func (export "catch") (result i32)
        (block $caught (try_table (catch_all $caught) (drop (call $host (ref.null any)))) (return (i32.const 0)))
        (i32.const 1)))"#;

/// An instance whose import is a function of the host.
fn instance(
    engine: &mut Engine,
    body: impl Fn(&mut Engine, &[Value]) -> Result<Vec<Value>, Trap> + 'static,
) -> InstanceId {
    let module = engine.load(&assemble(HOST)).unwrap();
    let signature = Signature {
        params: vec![any()],
        results: vec![any()],
    };
    let host = engine.host_function(signature, body).unwrap();
    let resolve = |_: &str, _: &str| Some(Extern::Function(host));
    engine.instantiate(&module, &resolve).unwrap()
}

fn function(engine: &mut Engine, instance: InstanceId, name: &str) -> Function {
    match engine.export(instance, name) {
        Some(Extern::Function(function)) => function,
        other => panic!("{name} is {other:?}"),
    }
}

fn call(
    engine: &mut Engine,
    instance: InstanceId,
    name: &str,
    values: &[Value],
) -> Result<Vec<Value>, Trap> {
    let function = function(engine, instance, name);
    engine.call(function, values)
}

fn made(engine: &mut Engine, instance: InstanceId) -> Value {
    call(engine, instance, "make", &[]).unwrap().remove(0)
}

fn echo(_: &mut Engine, values: &[Value]) -> Result<Vec<Value>, Trap> {
    Ok(values.to_vec())
}

/// What a panic says.
fn panics(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().unwrap().to_string(),
    }
}

/// The engine still does what it should.
fn works(engine: &mut Engine, instance: InstanceId) {
    let value = made(engine, instance);
    engine.collect();
    let got = call(engine, instance, "get", &[value]).unwrap();
    assert!(matches!(got[..], [Value::I64(7)]));
}

#[test]
fn what_belongs_to_another_engine_is_found() {
    let (mut own, mut other) = (engine(), engine());
    let own_instance = instance(&mut own, echo);
    let other_instance = instance(&mut other, echo);
    let make = function(&mut other, other_instance, "make");
    let object = made(&mut other, other_instance);
    let module: Module = other.load(&assemble("(module)")).unwrap();
    let Value::Object(foreign) = &object else {
        panic!()
    };

    let text = panics(|| drop(own.call(make, &[])));
    assert_eq!(text, "a function of another engine is used");
    let text = panics(|| {
        drop(call(
            &mut own,
            own_instance,
            "call",
            &[Value::Function(make)],
        ))
    });
    assert_eq!(text, "a function of another engine is used");
    let text = panics(|| {
        drop(call(
            &mut own,
            own_instance,
            "get",
            std::slice::from_ref(&object),
        ))
    });
    assert_eq!(text, "an object of another engine is used");
    let text = panics(|| drop(own.new_global(any(), true, &object)));
    assert_eq!(text, "an object of another engine is used");
    let text = panics(|| assert_eq!(own.kind_of(foreign), ObjectKind::Struct));
    assert_eq!(text, "an object of another engine is used");
    let text = panics(|| drop(own.instantiate(&module, &|_, _| None)));
    assert_eq!(text, "a module of another engine is used");
    let importing = own.load(&assemble(HOST)).unwrap();
    let resolve = |_: &str, _: &str| Some(Extern::Function(make));
    let text = panics(|| drop(own.instantiate(&importing, &resolve)));
    assert_eq!(text, "a function of another engine is used");
    // An engine that is gone is another one, too.
    drop(other);
    let text = panics(|| drop(own.call(make, &[])));
    assert_eq!(text, "a function of another engine is used");
    works(&mut own, own_instance);
}

#[test]
fn a_host_function_that_answers_what_belongs_to_another_engine_panics_in_the_caller() {
    let mut other = engine();
    let other_instance = instance(&mut other, echo);
    let object = made(&mut other, other_instance);
    let mut own = engine();
    let answer = object.clone();
    let own_instance = instance(&mut own, move |_, _| Ok(vec![answer.clone()]));
    let text = panics(|| drop(call(&mut own, own_instance, "call", &[Value::Null])));
    assert_eq!(text, "an object of another engine is used");
    works(&mut own, own_instance);
    works(&mut other, other_instance);
}

#[test]
fn a_host_function_throws_exceptions_alone() {
    let mut engine = engine();
    let body = |engine: &mut Engine, _: &[Value]| {
        Err(Trap::Exception(Thrown {
            exception: engine.host_object(1 << 40)?,
            text: None,
            backtrace: Vec::new(),
        }))
    };
    let instance = instance(&mut engine, body);
    let error = call(&mut engine, instance, "catch", &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a host function threw an object that is no exception"
    );
    works(&mut engine, instance);
}

#[test]
fn an_engine_that_its_own_host_function_drops_ends_its_call() {
    let calls = Rc::new(Cell::new(0));
    let count = Rc::clone(&calls);
    let mut own = engine();
    let body = move |running: &mut Engine, values: &[Value]| {
        count.set(count.get() + 1);
        drop(std::mem::replace(running, engine()));
        Ok(values.to_vec())
    };
    let instance = instance(&mut own, body);
    let value = made(&mut own, instance);
    let same = call(&mut own, instance, "call", &[value]);
    assert!(matches!(same.unwrap()[..], [Value::Object(_)]));
    assert_eq!(calls.get(), 1);
}

#[test]
fn panics_and_traps_pass_through_calls_within_calls() {
    let mut engine = engine();
    let depth = Cell::new(0);
    let inner: Rc<RefCell<Option<Function>>> = Rc::default();
    let target = Rc::clone(&inner);
    let body = move |engine: &mut Engine, values: &[Value]| {
        depth.set(depth.get() + 1);
        match depth.get() {
            50 => panic!("at the bottom"),
            51.. => Err(Trap::Host("refused".into())),
            _ => engine.call(target.borrow().unwrap(), values),
        }
    };
    let instance = instance(&mut engine, body);
    *inner.borrow_mut() = Some(function(&mut engine, instance, "call"));
    let text = panics(|| drop(call(&mut engine, instance, "call", &[Value::Null])));
    assert_eq!(text, "at the bottom");
    let error = call(&mut engine, instance, "call", &[Value::Null]).unwrap_err();
    assert_eq!(error.to_string(), "refused");
    works(&mut engine, instance);
}

#[test]
fn engines_of_two_threads_do_not_know_of_each_other() {
    let run = || {
        let mut engine = engine();
        let instance = instance(&mut engine, |engine, values| {
            engine.collect();
            Ok(values.to_vec())
        });
        for _ in 0..100 {
            let value = made(&mut engine, instance);
            let same = call(&mut engine, instance, "call", &[value]).unwrap();
            let got = call(&mut engine, instance, "get", &same).unwrap();
            assert!(matches!(got[..], [Value::I64(7)]));
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(run), scope.spawn(run)];
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}
