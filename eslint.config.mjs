import eslint from "@eslint/js";
import nx from "@nx/eslint-plugin";
import tseslint from "typescript-eslint";

/** Rules for all files. A later block replaces `no-restricted-syntax` instead of merging it, so stricter blocks repeat these. */
const everywhere = [
  { selector: "ExportAllDeclaration", message: "Name what you export." },
  { selector: "TSEnumDeclaration", message: "Use a union of string literals." },
  {
    selector: "MemberExpression[object.object.name='process'][object.property.name='env']",
    message: "Read configuration in main.ts.",
  },
];
const clock = [
  { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: "Take nowMs as an argument." },
];
const exit = {
  selector: "CallExpression[callee.object.name='process'][callee.property.name='exit']",
  message: "Return.",
};

const inputOutput = [
  "node:*",
  "fs",
  "net",
  "http",
  "https",
  "child_process",
  "@nats-io/*",
  "@kubernetes/*",
  "@opentelemetry/*",
];

/** Libraries with I/O. */
const platform = [
  "@muster/bus",
  "@muster/kube",
  "@muster/leases/keys",
  "@muster/leases/wire",
  "@muster/store",
  "@muster/service",
  "@muster/tracing",
  "@muster/testkit",
];

/** Rules for pure code, beside `no-restricted-imports`. */
const pure = {
  "no-restricted-globals": ["error", "process", "fetch", "setTimeout", "setInterval", "performance"],
  "no-restricted-properties": [
    "error",
    { object: "Date", property: "now" },
    { object: "Math", property: "random" },
    { object: "crypto", property: "randomUUID" },
  ],
  "no-restricted-syntax": ["error", ...everywhere, exit, ...clock],
};

const testkit = { group: ["@muster/testkit"], message: "Use test servers and clocks only in tests." };

/** Forbids files of an app to import files and folders of its `src` with these names. */
const outward = (...names) => ({
  regex: `^(\\.\\./)+(${names.join("|")})(/|\\.ts$)`,
  message: "Imports point inwards: main, service -> adapters -> the other folders -> types -> domain.",
});

/** Allowed imports of a pure file. Allowed folders beside its own begin with `!`. */
const pureImports = (...folders) => [
  "error",
  {
    patterns: [
      { group: inputOutput, message: "Decisions are pure." },
      { regex: "^@muster/ledger-client$", message: "Decisions are pure: import its plan-sweep or explanation." },
      {
        group: ["../*", ...folders, ...platform, "@muster/proto"],
        message: "domain/ knows only domain/ and the core libraries.",
      },
    ],
  },
];

/** Allowed dependencies of a project, by its tag. A project without a tag may have none. */
const boundaries = {
  enforceBuildableLibDependency: true,
  // Tests of kube start the embedded API server, which is built on kube, as a process.
  ignoredCircularDependencies: [["kube", "devcluster"]],
  // The version of all parts.
  allow: ["../../../package.json"],
  depConstraints: [
    { sourceTag: "type:app", onlyDependOnLibsWithTags: ["type:contract", "type:core", "type:platform", "type:test"] },
    {
      sourceTag: "type:tool",
      onlyDependOnLibsWithTags: ["type:contract", "type:core", "type:platform", "type:test", "type:tool"],
    },
    {
      sourceTag: "type:simulator",
      onlyDependOnLibsWithTags: ["type:app", "type:contract", "type:core", "type:platform", "type:test", "type:tool"],
    },
    { sourceTag: "type:test", onlyDependOnLibsWithTags: ["type:contract", "type:core", "type:platform", "type:test"] },
    {
      sourceTag: "type:platform",
      onlyDependOnLibsWithTags: ["type:contract", "type:core", "type:platform", "type:test"],
    },
    {
      sourceTag: "type:contract",
      onlyDependOnLibsWithTags: ["type:core"],
      allowedExternalImports: ["protobufjs", "protobufjs/*", "long"],
    },
    { sourceTag: "type:core", onlyDependOnLibsWithTags: ["type:core"], allowedExternalImports: [] },
  ],
};

/** The `exports` of the services' package.json that the simulator may import. No other project may import an app. */
const simulated = [
  "@muster/session-controller/*",
  "@muster/reservation-manager/*",
  "@muster/watcher/*",
  "@muster/provision-engine/*",
  "@muster/chaos/*",
];

/** Tests may import test tools in every project; the other constraints stay the same. */
const boundariesOfTests = {
  ...boundaries,
  depConstraints: boundaries.depConstraints.map(({ allowedExternalImports, ...constraint }) => ({
    ...constraint,
    ...(allowedExternalImports && { allowedExternalImports: [...allowedExternalImports, "vitest", "fast-check"] }),
  })),
};

export default tseslint.config(
  { ignores: ["**/node_modules", "**/dist", "**/generated", "**/.nx", "**/coverage", "**/.muster"] },
  {
    files: ["**/*.ts", "**/*.tsx"],
    extends: [eslint.configs.recommended, tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    plugins: { "@nx": nx },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "@nx/enforce-module-boundaries": ["error", boundaries],
      "@typescript-eslint/consistent-type-imports": ["error", { fixStyle: "inline-type-imports" }],
      "@typescript-eslint/consistent-type-definitions": ["error", "type"],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      // Types of generated classes and JSON make some necessary conditions look unnecessary.
      "@typescript-eslint/no-unnecessary-condition": [
        "error",
        { allowConstantLoopConditions: "only-allowed-literals" },
      ],
      // The models of client-node and the generated messages are classes that serve as plain data.
      "@typescript-eslint/no-unsafe-class-instance-assignment": "off",
      "@typescript-eslint/no-misused-spread": "off",
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      // Ports are records of functions without `this`.
      "@typescript-eslint/unbound-method": "off",
      "no-console": "error",
      eqeqeq: "error",
      "max-len": [
        "error",
        { code: 160, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true, ignoreUrls: true },
      ],
      "max-lines": ["error", { max: 400, skipBlankLines: true, skipComments: true }],
      "max-lines-per-function": ["error", { max: 70, skipBlankLines: true, skipComments: true }],
      "max-params": ["error", 5],
      "max-depth": ["error", 4],
      "no-restricted-syntax": ["error", ...everywhere, exit],
    },
  },
  {
    files: [
      "**/main.ts",
      "**/vite.config.ts",
      "**/*.test.ts",
      "**/test/**/*.ts",
      "**/bench/**/*.ts",
      "libs/testkit/src/**/*.ts",
    ],
    rules: { "no-restricted-syntax": ["error", ...everywhere.slice(0, 2), exit] },
  },
  {
    files: ["**/*.test.ts", "**/test/**/*.ts"],
    rules: {
      // A table of cases is one long function.
      "max-lines-per-function": "off",
      "max-lines": ["error", { max: 900, skipBlankLines: true, skipComments: true }],
      "@typescript-eslint/no-non-null-assertion": "off",
      "@nx/enforce-module-boundaries": ["error", boundariesOfTests],
    },
  },
  {
    files: ["tools/simulate/**/*.ts"],
    rules: { "@nx/enforce-module-boundaries": ["error", { ...boundaries, allow: simulated }] },
  },
  {
    files: ["tools/**/*.ts", "**/bench/**/*.ts", "apps/cli/src/main.ts"],
    rules: { "no-console": "off" },
  },
  {
    // Test servers and clocks stay in tests; the chaos tool is a test that runs as a command.
    files: ["apps/*/src/**/*.ts", "libs/*/src/**/*.ts", "tools/*/src/**/*.ts"],
    ignores: ["**/*.test.ts", "tools/chaos/src/**/*.ts"],
    rules: { "no-restricted-imports": ["error", { patterns: [testkit] }] },
  },
  {
    files: ["apps/*/src/adapters/**/*.ts"],
    ignores: ["**/*.test.ts"],
    rules: { "no-restricted-imports": ["error", { patterns: [testkit, outward("main", "service")] }] },
  },
  {
    // Only what starts a service opens its adapters; its other files take them as arguments.
    files: ["apps/*/src/*.ts"],
    ignores: ["**/*.test.ts", "apps/*/src/main.ts", "apps/*/src/service.ts", "apps/cli/**"],
    rules: {
      "@typescript-eslint/no-restricted-imports": [
        "error",
        {
          patterns: [
            {
              group: ["./adapters/*"],
              message: "Take adapters as arguments; import only their types.",
              allowTypeImports: true,
            },
          ],
        },
      ],
    },
  },
  {
    // The command line and the console have no ports: commands and components call the adapters.
    files: ["apps/*/src/*/**/*.ts"],
    ignores: ["**/*.test.ts", "apps/*/src/adapters/**", "apps/cli/**", "apps/console/**"],
    rules: {
      "no-restricted-imports": ["error", { patterns: [testkit, outward("main", "service", "config", "adapters")] }],
    },
  },
  ...Object.entries({ holdings: ["lead", "orders"], lead: ["orders"] }).map(([folder, outer]) => ({
    // The folders of the engine: orders -> lead -> holdings -> types -> domain.
    files: [`apps/provision-engine/src/${folder}/**/*.ts`],
    ignores: ["**/*.test.ts"],
    rules: {
      "no-restricted-imports": [
        "error",
        { patterns: [testkit, outward("main", "service", "config", "adapters", ...outer)] },
      ],
    },
  })),
  {
    // The claims, objects and actions of each workload type. Clients are arguments, with types of the platform.
    files: ["apps/*/src/types/**/*.ts"],
    ignores: ["**/*.test.ts"],
    rules: {
      ...pure,
      "no-restricted-imports": [
        "error",
        { patterns: [{ regex: "^\\.\\./(?!domain/)", message: "types/ knows only types/ and domain/." }] },
      ],
      "@typescript-eslint/no-restricted-imports": [
        "error",
        {
          patterns: [
            {
              group: [...inputOutput, "!node:crypto", ...platform],
              message: "Take clients as arguments; import only their types.",
              allowTypeImports: true,
            },
            {
              group: ["node:crypto"],
              allowImportNames: ["createHash"],
              message: "Import only createHash: randomness and keys are not pure.",
            },
          ],
        },
      ],
    },
  },
  {
    // The parts that control members are used by the adapters and do not import them.
    files: ["apps/job-controller/src/members/**/*.ts"],
    ignores: ["**/*.test.ts"],
    rules: {
      "no-restricted-imports": [
        "error",
        {
          paths: ["@muster/testkit"],
          patterns: [
            { group: ["../*", "!../domain"], message: "members/ knows only members/, domain/ and libraries." },
          ],
        },
      ],
    },
  },
  {
    // Core libraries and the decisions of each app are pure.
    files: [
      "apps/*/src/domain/**/*.ts",
      "libs/documents/src/**/*.ts",
      "libs/faults/src/**/*.ts",
      "libs/health/src/**/*.ts",
      "libs/leases/src/**/*.ts",
      "libs/ledger-client/src/choose-queue.ts",
      "libs/ledger-client/src/describe-queue-wait.ts",
      "libs/ledger-client/src/explanation.ts",
      "libs/ledger-client/src/ledger-cache.ts",
      "libs/ledger-client/src/plan-sweep.ts",
      "libs/names/src/**/*.ts",
      "libs/session-limits/src/**/*.ts",
      "tools/chaos/src/domain/**/*.ts",
    ],
    ignores: ["**/*.test.ts", "libs/leases/src/keys/**", "libs/leases/src/wire/**"],
    rules: {
      ...pure,
      "no-restricted-imports": pureImports(),
    },
  },
  {
    // Ids contain hashes, which are pure.
    files: ["libs/names/src/session-owner.ts"],
    rules: {
      "no-restricted-imports": [
        "error",
        {
          patterns: [
            { group: [...inputOutput, "!node:crypto", ...platform, "../*"], message: "Decisions are pure." },
            { group: ["node:crypto"], allowImportNames: ["createHash"], message: "Import only createHash." },
          ],
        },
      ],
    },
  },
  {
    // Views of answers take their types from the adapters, which derive them from the generated messages.
    files: ["apps/cli/src/domain/**/*.ts", "apps/console/src/domain/**/*.ts"],
    ignores: ["**/*.test.ts"],
    rules: {
      "no-restricted-imports": pureImports("!../adapters"),
      "@typescript-eslint/no-restricted-imports": [
        "error",
        {
          patterns: [
            {
              group: ["../adapters/*"],
              message: "domain/ takes data as arguments; import only the types of answers.",
              allowTypeImports: true,
            },
          ],
        },
      ],
    },
  },
  {
    // Decisions import the ledger; the ledger imports no decision.
    files: ["apps/reservation-manager/src/domain/decisions/**/*.ts"],
    ignores: ["**/*.test.ts"],
    rules: { "no-restricted-imports": pureImports("!../ledger") },
  },
  {
    // Queues are read as jobs are; decisions about jobs import decisions about queues, not the reverse.
    files: ["apps/job-controller/src/domain/queues/**/*.ts"],
    ignores: ["**/*.test.ts"],
    rules: { "no-restricted-imports": pureImports("!../kind.ts", "!../read-fields.ts") },
  },
  {
    // Batch Jobs are read, queued and reserved as jobs are; decisions about jobs import none about batch Jobs.
    files: ["apps/job-controller/src/domain/batch/**/*.ts"],
    ignores: ["**/*.test.ts"],
    rules: { "no-restricted-imports": pureImports("!../*.ts", "!../queues") },
  },
);
