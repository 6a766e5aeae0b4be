# A large pure expression: a module system in small, evaluated for many hosts.
#
# Modules declare options (type, default) and give definitions, some only under
# a condition on the final configuration; the configuration is the fixed point
# of merging them all.  Each host has its own set of modules; services refer to
# each other through the configuration, so that evaluation is lazy, recursive
# and full of thunks, attribute sets, lists and strings.  No file outside this
# directory is read, no derivation is made.
{ hosts ? 4, services ? 20, depth ? 5 }:

let
  inherit (builtins)
    add all attrNames attrValues concatLists concatMap concatStringsSep
    elem elemAt filter foldl' genList hasAttr hashString head isAttrs isBool
    isFunction isInt isList isString length map mapAttrs sort
    stringLength substring tail toJSON toString;

  # ---- small library ------------------------------------------------------
  fold = f: start: items:
    let
      count = length items;
      go = i: if i == count then start else f (elemAt items i) (go (i + 1));
    in go 0;

  fix = f: let x = f x; in x;

  optional = condition: items: if condition then items else [ ];

  unique = foldl' (seen: x: if elem x seen then seen else seen ++ [ x ]) [ ];

  recursiveUpdate = a: b:
    if isAttrs a && isAttrs b
    then mapAttrs (name: value:
      if hasAttr name a && hasAttr name b
      then recursiveUpdate a.${name} b.${name}
      else value) (a // b)
    else b;

  modulo = a: b: a - b * (a / b);

  # ---- types ----------------------------------------------------------------
  types = {
    bool = { check = isBool; merge = values: foldl' (a: b: a || b) false values; };
    int = { check = isInt; merge = values: foldl' add 0 values; };
    str = { check = isString; merge = values: concatStringsSep "," values; };
    list = { check = isList; merge = concatLists; };
    set = { check = isAttrs; merge = foldl' recursiveUpdate { }; };
  };

  option = type: default: { _option = true; inherit type default; };
  isOption = value: isAttrs value && value ? _option;

  # A definition that counts only when the condition holds.
  when = condition: content: { _when = true; inherit condition content; };
  isWhen = value: isAttrs value && value ? _when;

  discharge = definition:
    if isWhen definition
    then optional definition.condition (discharge definition.content)
    else [ definition ];

  # Pushes conditions down, so that the names defined never depend on them.
  pushDown = definition:
    if isWhen definition
    then mapAttrs (name: value: when definition.condition value)
      (pushDown definition.content)
    else definition;

  # ---- the fixed point ------------------------------------------------------
  mergeTree = path: options: definitions:
    mapAttrs (name: declared:
      let
        here = path ++ [ name ];
        given = concatMap
          (d: optional (hasAttr name d) [ d.${name} ])
          (map pushDown definitions);
      in
        if isOption declared
        then mergeOption here declared (concatMap discharge given)
        else mergeTree here declared given) options;

  mergeOption = path: declared: values:
    let type = types.${declared.type}; in
    if values == [ ] then declared.default
    else if all type.check values then type.merge values
    else throw "wrong type at ${concatStringsSep "." path}";

  evaluate = modules:
    fix (config:
      let
        instances = map (m: if isFunction m then m config else m) modules;
        options = foldl' recursiveUpdate { } (map (m: m.options or { }) instances);
      in mergeTree [ ] options (map (m: m.config or { }) instances));

  # ---- modules --------------------------------------------------------------
  serviceName = i: "service${toString i}";

  base = config: {
    options.system = {
      name = option "str" "nameless";
      packages = option "list" [ ];
      ports = option "list" [ ];
      weight = option "int" 0;
      units = option "set" { };
    };
    config.system.packages = [ "base" "shell" ];
  };

  # Service i needs service (i-1)/2 and another: a tree with cross links.
  service = host: i: config:
    let
      name = serviceName i;
      needs = unique (optional (i > 0) [
        (serviceName ((i - 1) / 2))
        (serviceName (modulo (i * 7 + host) i))
      ]);
      own = config.services.${name};
    in {
      options.services.${name} = {
        enable = option "bool" false;
        port = option "int" 0;
        settings = option "set" { };
        users = option "list" [ ];
      };
      config = {
        services.${name} = {
          enable = modulo (i + host) 5 != 0;
          port = 1000 + i;
          users = map (n: "${n}-${name}") needs;
          settings = nested depth "${name}-${toString host}";
        };
        system = when own.enable {
          packages = [ name ] ++ needs;
          ports = [ own.port ];
          weight = i + length own.users;
          units.${name} = {
            after = filter (n: config.services.${n}.enable) needs;
            environment = concatStringsSep ";" (flat own.settings);
            hash = hashString "sha256" (toJSON own.settings);
          };
        };
      };
    };

  nested = level: label:
    if level == 0 then { value = label; size = stringLength label; }
    else {
      left = nested (level - 1) "${label}l";
      right = nested (level - 1) "${label}r";
      names = genList (k: "${label}${toString k}") level;
    };

  flat = value:
    if isAttrs value then concatMap flat (attrValues value)
    else if isList value then concatMap flat value
    else [ (toString value) ];

  # ---- hosts ----------------------------------------------------------------
  # Hosts see each other's configurations, so that all stay alive together.
  fleet = genList configuration hosts;

  configuration = number: evaluate ([
    base
    (config: { config.system.name = "host${toString number}"; })
    (config: { config.system.weight = length config.system.packages; })
    (config: {
      config.system.packages = optional (number > 0)
        [ "peer-of-${(elemAt fleet (number - 1)).system.name}" ];
    })
  ] ++ genList (service number) services);

  summary = config:
    let units = config.system.units; in {
      inherit (config.system) name weight;
      packages = length (sort (a: b: a < b) (unique config.system.packages));
      ports = foldl' add 0 config.system.ports;
      units = length (attrNames units);
      order = hashString "sha256" (toJSON (mapAttrs (n: u: u.after) units));
      text = hashString "sha256"
        (concatStringsSep "\n" (map (u: u.environment + u.hash) (attrValues units)));
      chain = fold (n: rest: substring 0 4 units.${n}.hash + substring 0 60 rest)
        "" (attrNames units);
      whole = hashString "sha256" (toJSON config);
    };

in {
  hosts = map summary fleet;
  total = foldl' add 0 (map (config: config.system.weight) fleet);
}
