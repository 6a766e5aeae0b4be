//! Bytes to declarations: `wasmparser` decodes and validates, and this keeps what the engine needs.

use std::ops::Range;

use wasmparser::{
    CompositeInnerType, ConstExpr, DataKind, ElementItems, ElementKind, ExternalKind,
    FuncToValidate, FuncValidator, FuncValidatorAllocations, KnownCustom, Name, Operator, Parser,
    Payload, SectionLimited, StorageType, TableInit, TypeRef, UnpackedIndex, ValidPayload,
    Validator, ValidatorResources, WasmFeatures, WasmModuleResources,
};

use crate::error::LoadError;
use crate::module::{
    Constant, Data, Declarations, Element, Export, Expression, GlobalType, Import, Item, ItemType,
    Limits, Mode, TableType,
};
use crate::types::{
    Composite, Field, HeapType, Number, RefType, Signature, Storage, SubType, ValType, within,
};

/// Makes a recursion group canonical: the number of its first type.
pub(crate) type Intern<'a> = dyn FnMut(Vec<SubType>) -> Result<Number, LoadError> + 'a;

/// What this engine has of the language.
pub(crate) const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::EXCEPTIONS)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::FUNCTION_REFERENCES)
    .union(WasmFeatures::GC)
    .union(WasmFeatures::GC_TYPES);

/// What a module may have outside of functions. Kotlin tells types apart by structures with fields of vectors, which no
/// instruction uses.
const MODULE_FEATURES: WasmFeatures = FEATURES.union(WasmFeatures::SIMD);

/// What it has not, by the names of the proposals.
const REFUSED: [(WasmFeatures, &str); 10] = [
    (WasmFeatures::SIMD, SIMD),
    (WasmFeatures::RELAXED_SIMD, "relaxed SIMD"),
    (WasmFeatures::MEMORY64, "memory64"),
    (WasmFeatures::THREADS, "threads"),
    (
        WasmFeatures::SHARED_EVERYTHING_THREADS,
        "shared-everything threads",
    ),
    (
        WasmFeatures::LEGACY_EXCEPTIONS,
        "legacy exception handling (translate it with wasm-opt --translate-to-exnref)",
    ),
    (WasmFeatures::STACK_SWITCHING, "stack switching"),
    (WasmFeatures::CUSTOM_PAGE_SIZES, "custom page sizes"),
    (WasmFeatures::WIDE_ARITHMETIC, "wide arithmetic"),
    (WasmFeatures::CUSTOM_DESCRIPTORS, "custom descriptors"),
];

const SIMD: &str = "fixed-width SIMD";

impl From<wasmparser::Error> for LoadError {
    fn from(error: wasmparser::Error) -> LoadError {
        let offset = error.offset();
        let missing = error.missing_wasm_feature();
        match missing.and_then(|missing| {
            REFUSED
                .iter()
                .find(|(feature, _)| missing.contains(*feature))
        }) {
            Some(&(_, proposal)) => LoadError::Unsupported { proposal, offset },
            // The sizes that any engine may refuse.
            None if error.message().contains("exceeds limit of") => LoadError::TooLarge(format!(
                "{} (at offset {offset:#x}); split it",
                error.message()
            )),
            None => LoadError::Invalid {
                message: error.message().into(),
                offset,
            },
        }
    }
}

/// What the binary form of modules and components begins with.
const MAGIC: [u8; 4] = *b"\0asm";

/// What the binary form of components begins with: the same magic as modules, and another version and layer.
const COMPONENT: [u8; 8] = *b"\0asm\x0d\0\x01\0";

/// Decodes and validates a module.
pub(crate) fn decode(bytes: &[u8], intern: &mut Intern<'_>) -> Result<Declarations, LoadError> {
    if bytes.starts_with(&COMPONENT) {
        return Err(LoadError::Component);
    }
    if !bytes.starts_with(&MAGIC) {
        return Err(LoadError::Invalid {
            message: "it does not begin with 00 61 73 6d, as the binary form does".into(),
            offset: 0,
        });
    }
    let mut decoder = Decoder {
        out: Declarations::default(),
        intern,
    };
    let mut validator = Validator::new_with_features(MODULE_FEATURES);
    let mut allocations = FuncValidatorAllocations::default();
    let mut parser = Parser::new(0);
    parser.set_features(FEATURES);
    for payload in parser.parse_all(bytes) {
        let payload = payload?;
        if let ValidPayload::Func(mut function, body) = validator.payload(&payload)? {
            let known = &mut decoder.out.validated;
            known.get_or_insert_with(|| function.resources.clone());
            function.features = FEATURES;
            let mut validator = function.into_validator(allocations);
            validator.validate(&body)?;
            allocations = validator.into_allocations();
        }
        decoder.payload(payload)?;
    }
    Ok(decoder.out)
}

/// A validator that is given the instructions of a function that is known to be valid, for the types of its operands.
pub(crate) type OperandTypes = FuncValidator<ValidatorResources>;

/// The types of operands at the start of the function with an index.
pub(crate) fn operand_types(of: &Declarations, index: u32) -> OperandTypes {
    let resources = of.validated.clone();
    let resources = resources.expect("a module with functions was validated");
    let ty = resources.type_index_of_function(index);
    let function = FuncToValidate {
        ty: ty.expect("the function was declared"),
        resources,
        index,
        features: FEATURES,
    };
    function.into_validator(FuncValidatorAllocations::default())
}

struct Decoder<'a, 'b> {
    out: Declarations,
    intern: &'a mut Intern<'b>,
}

fn range(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

impl Decoder<'_, '_> {
    fn payload(&mut self, payload: Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::TypeSection(groups) => {
                for group in groups.into_iter_with_offsets() {
                    let (offset, group) = group?;
                    for ty in group.types() {
                        refuse_vectors_if(has_vectors(&ty.composite_type.inner), offset)?;
                    }
                    self.group(group)?;
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports_with_offsets() {
                    let (offset, import) = import?;
                    if let TypeRef::Global(ty) = import.ty {
                        refuse_vectors_if(is_vector(ty.content_type), offset)?;
                    }
                    self.import(import);
                }
            }
            Payload::FunctionSection(functions) => {
                for index in functions {
                    self.out.funcs.push(self.out.types[index? as usize]);
                }
            }
            Payload::TableSection(tables) => {
                for table in tables {
                    let table = table?;
                    let ty = self.table(table.ty);
                    let init = match table.init {
                        TableInit::RefNull => Constant::Bits(0),
                        TableInit::Expr(init) => self.constant(&init)?,
                    };
                    self.out.tables.push(ty);
                    self.out.table_inits.push(init);
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories {
                    self.out.memories.push(memory_limits(memory?));
                }
            }
            Payload::TagSection(tags) => {
                for tag in tags {
                    self.out
                        .tags
                        .push(self.out.types[tag?.func_type_idx as usize]);
                }
            }
            Payload::GlobalSection(globals) => {
                for global in globals.into_iter_with_offsets() {
                    let (offset, global) = global?;
                    refuse_vectors_if(is_vector(global.ty.content_type), offset)?;
                    let ty = self.global(global.ty);
                    let init = self.constant(&global.init_expr)?;
                    self.out.globals.push(ty);
                    self.out.global_inits.push(init);
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    let item = item(export.kind, export.index);
                    self.out.exports.push(Export {
                        name: export.name.into(),
                        item,
                    });
                }
            }
            Payload::StartSection { func, .. } => self.out.start = Some(func),
            Payload::ElementSection(elements) => {
                for element in elements {
                    self.element(element?)?;
                }
            }
            Payload::DataSection(datas) => {
                for data in datas {
                    let data = data?;
                    let mode = match data.kind {
                        DataKind::Passive => Mode::Passive,
                        DataKind::Active {
                            memory_index,
                            offset_expr,
                        } => Mode::Active {
                            index: memory_index,
                            offset: self.constant(&offset_expr)?,
                        },
                    };
                    self.out.datas.push(Data {
                        mode,
                        bytes: data.data.into(),
                    });
                }
            }
            Payload::CodeSectionEntry(body) => self.out.bodies.push(range(body.range())),
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    self.names(names);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Names help people; a section of names that is malformed is left out.
    fn names(&mut self, names: wasmparser::NameSectionReader<'_>) {
        for name in names {
            let Ok(Name::Function(functions)) = name else {
                continue;
            };
            let functions = functions.into_iter().filter_map(Result::ok);
            self.out
                .names
                .extend(functions.map(|naming| (naming.index, naming.name.to_string())));
        }
    }

    fn group(&mut self, group: wasmparser::RecGroup) -> Result<(), LoadError> {
        let first = self.out.types.len() as u32;
        let count = group.types().len() as u32;
        let types = &self.out.types;
        // Numbers of the group's own types count from its start.
        let number = |index: UnpackedIndex| match index.as_module_index() {
            Some(index) if index >= first => within(index - first),
            Some(index) => types[index as usize],
            None => unreachable!("types are read before they are canonical"),
        };
        let subs = group
            .into_types()
            .map(|sub| sub_type(&sub, &number))
            .collect();
        let canonical = (self.intern)(subs)?;
        self.out
            .types
            .extend((0..count).map(|index| canonical + index));
        Ok(())
    }

    fn number(&self, index: UnpackedIndex) -> Number {
        let index = index
            .as_module_index()
            .expect("types are read before they are canonical");
        self.out.types[index as usize]
    }

    fn reference(&self, ty: wasmparser::RefType) -> RefType {
        reference(ty, &|index| self.number(index))
    }

    fn table(&self, ty: wasmparser::TableType) -> TableType {
        let limits = Limits {
            least: ty.initial,
            most: ty.maximum,
        };
        TableType {
            element: self.reference(ty.element_type),
            limits,
        }
    }

    fn global(&self, ty: wasmparser::GlobalType) -> GlobalType {
        let content = value(ty.content_type, &|index| self.number(index));
        GlobalType {
            content,
            mutable: ty.mutable,
        }
    }

    fn import(&mut self, import: wasmparser::Import<'_>) {
        let out = &mut self.out;
        let ty = match import.ty {
            TypeRef::Func(index) | TypeRef::FuncExact(index) => {
                let number = out.types[index as usize];
                out.funcs.push(number);
                out.imported_funcs += 1;
                ItemType::Func(number)
            }
            TypeRef::Table(ty) => {
                let ty = self.table(ty);
                self.out.tables.push(ty);
                ItemType::Table(ty)
            }
            TypeRef::Memory(ty) => {
                let limits = memory_limits(ty);
                out.memories.push(limits);
                out.imported_memories += 1;
                ItemType::Memory(limits)
            }
            TypeRef::Global(ty) => {
                let ty = self.global(ty);
                self.out.globals.push(ty);
                ItemType::Global(ty)
            }
            TypeRef::Tag(ty) => {
                let number = out.types[ty.func_type_idx as usize];
                out.tags.push(number);
                out.imported_tags += 1;
                ItemType::Tag(number)
            }
        };
        self.out.imports.push(Import {
            module: import.module.into(),
            name: import.name.into(),
            ty,
        });
    }

    fn element(&mut self, element: wasmparser::Element<'_>) -> Result<(), LoadError> {
        let mode = match element.kind {
            ElementKind::Passive => Mode::Passive,
            ElementKind::Declared => Mode::Declared,
            ElementKind::Active {
                table_index,
                offset_expr,
            } => Mode::Active {
                index: table_index.unwrap_or(0),
                offset: self.constant(&offset_expr)?,
            },
        };
        let (ty, items) = match element.items {
            ElementItems::Functions(functions) => {
                let ty = RefType {
                    nullable: true,
                    heap: HeapType::Func,
                };
                (
                    ty,
                    functions
                        .into_iter()
                        .map(|index| Ok(Constant::Func(index?)))
                        .collect::<Result<_, LoadError>>()?,
                )
            }
            ElementItems::Expressions(ty, items) => {
                let ty = self.reference(ty);
                (ty, self.items(items)?)
            }
        };
        self.out.elements.push(Element { ty, mode, items });
        Ok(())
    }

    fn items(
        &mut self,
        items: SectionLimited<'_, ConstExpr<'_>>,
    ) -> Result<Vec<Constant>, LoadError> {
        items
            .into_iter()
            .map(|item| self.constant(&item?))
            .collect()
    }

    fn constant(&mut self, expression: &ConstExpr<'_>) -> Result<Constant, LoadError> {
        let mut operators = expression.get_operators_reader();
        let first = operators.read()?;
        refuse_vectors_in(expression)?;
        if operators.is_end_then_eof() {
            match first {
                Operator::I32Const { value } => return Ok(Constant::Bits(u64::from(value as u32))),
                Operator::I64Const { value } => return Ok(Constant::Bits(value as u64)),
                Operator::F32Const { value } => return Ok(Constant::Bits(value.bits().into())),
                Operator::F64Const { value } => return Ok(Constant::Bits(value.bits())),
                Operator::RefNull { .. } => return Ok(Constant::Bits(0)),
                Operator::RefFunc { function_index } => return Ok(Constant::Func(function_index)),
                Operator::GlobalGet { global_index } => return Ok(Constant::Global(global_index)),
                _ => {}
            }
        }
        let mut reader = expression.get_binary_reader();
        self.out.expressions.push(Expression {
            start: reader.original_position() as usize,
            body: reader.read_bytes(reader.bytes_remaining())?.into(),
        });
        Ok(Constant::Expression(self.out.expressions.len() - 1))
    }
}

fn refuse_vectors_if(uses: bool, offset: u64) -> Result<(), LoadError> {
    match uses {
        true => Err(LoadError::Unsupported {
            proposal: SIMD,
            offset,
        }),
        false => Ok(()),
    }
}

fn is_vector(ty: wasmparser::ValType) -> bool {
    ty == wasmparser::ValType::V128
}

/// Refuses a constant expression that makes a vector: the validator lets it.
fn refuse_vectors_in(expression: &ConstExpr<'_>) -> Result<(), LoadError> {
    let mut operators = expression.get_operators_reader();
    while !operators.eof() {
        let (operator, offset) = operators.read_with_offset()?;
        refuse_vectors_if(matches!(operator, Operator::V128Const { .. }), offset)?;
    }
    Ok(())
}

/// Whether a type has vectors that the engine would have to hold elsewhere than in a structure.
fn has_vectors(ty: &CompositeInnerType) -> bool {
    match ty {
        CompositeInnerType::Func(of) => {
            let types = of.params().iter().chain(of.results());
            types.copied().any(is_vector)
        }
        CompositeInnerType::Array(of) => {
            of.0.element_type == StorageType::Val(wasmparser::ValType::V128)
        }
        CompositeInnerType::Struct(_) | CompositeInnerType::Cont(_) => false,
    }
}

fn memory_limits(ty: wasmparser::MemoryType) -> Limits {
    Limits {
        least: ty.initial,
        most: ty.maximum,
    }
}

fn item(kind: ExternalKind, index: u32) -> Item {
    match kind {
        ExternalKind::Func | ExternalKind::FuncExact => Item::Func(index),
        ExternalKind::Table => Item::Table(index),
        ExternalKind::Memory => Item::Memory(index),
        ExternalKind::Global => Item::Global(index),
        ExternalKind::Tag => Item::Tag(index),
    }
}

fn sub_type(sub: &wasmparser::SubType, number: &dyn Fn(UnpackedIndex) -> Number) -> SubType {
    let composite = match &sub.composite_type.inner {
        CompositeInnerType::Func(of) => Composite::Func(Signature {
            params: of.params().iter().map(|&ty| value(ty, number)).collect(),
            results: of.results().iter().map(|&ty| value(ty, number)).collect(),
        }),
        CompositeInnerType::Struct(of) => {
            Composite::Struct(of.fields.iter().map(|of| field(of, number)).collect())
        }
        CompositeInnerType::Array(of) => Composite::Array(field(&of.0, number)),
        CompositeInnerType::Cont(_) => unreachable!("validation refuses continuations"),
    };
    let supertype = sub
        .supertype_idxs
        .first()
        .map(|index| number(index.unpack()));
    SubType {
        is_final: sub.is_final,
        supertype,
        composite,
    }
}

fn field(of: &wasmparser::FieldType, number: &dyn Fn(UnpackedIndex) -> Number) -> Field {
    let storage = match of.element_type {
        StorageType::I8 => Storage::I8,
        StorageType::I16 => Storage::I16,
        StorageType::Val(wasmparser::ValType::V128) => Storage::V128,
        StorageType::Val(ty) => Storage::Val(value(ty, number)),
    };
    Field {
        storage,
        mutable: of.mutable,
    }
}

pub(crate) fn value(ty: wasmparser::ValType, number: &dyn Fn(UnpackedIndex) -> Number) -> ValType {
    match ty {
        wasmparser::ValType::I32 => ValType::I32,
        wasmparser::ValType::I64 => ValType::I64,
        wasmparser::ValType::F32 => ValType::F32,
        wasmparser::ValType::F64 => ValType::F64,
        wasmparser::ValType::V128 => unreachable!("vectors are refused but in structures"),
        wasmparser::ValType::Ref(ty) => ValType::Ref(reference(ty, number)),
    }
}

fn reference(ty: wasmparser::RefType, number: &dyn Fn(UnpackedIndex) -> Number) -> RefType {
    RefType {
        nullable: ty.is_nullable(),
        heap: heap(ty.heap_type(), number),
    }
}

pub(crate) fn heap(ty: wasmparser::HeapType, number: &dyn Fn(UnpackedIndex) -> Number) -> HeapType {
    use wasmparser::AbstractHeapType as Abstract;
    match ty {
        wasmparser::HeapType::Concrete(index) | wasmparser::HeapType::Exact(index) => {
            HeapType::Concrete(number(index))
        }
        wasmparser::HeapType::Abstract { ty, .. } => match ty {
            Abstract::Any => HeapType::Any,
            Abstract::Eq => HeapType::Eq,
            Abstract::I31 => HeapType::I31,
            Abstract::Struct => HeapType::Struct,
            Abstract::Array => HeapType::Array,
            Abstract::None => HeapType::None,
            Abstract::Func => HeapType::Func,
            Abstract::NoFunc => HeapType::NoFunc,
            Abstract::Extern => HeapType::Extern,
            Abstract::NoExtern => HeapType::NoExtern,
            Abstract::Exn => HeapType::Exn,
            Abstract::NoExn => HeapType::NoExn,
            Abstract::Cont | Abstract::NoCont => unreachable!("validation refuses continuations"),
        },
    }
}
