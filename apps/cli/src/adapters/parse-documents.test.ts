import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { readSessionDocument } from "../domain/read-session-document.ts";
import type { SessionDocument } from "../domain/session-document.ts";
import { makeAnySession } from "../../test/any-session.ts";
import { SESSION_LIMITS } from "@muster/session-limits";
import { readWork, type ReadWork } from "../kinds/documents.ts";
import { RESOURCES } from "../kinds/resources.ts";
import { buildDocument, buildSpec } from "../domain/session-document.ts";
import {
  describeProblem,
  MAX_DOCUMENTS,
  MAX_FILE_BYTES,
  parseDocuments,
  type ParsedDocuments,
  type PlacedDocument,
} from "./parse-documents.ts";

const VALID = `apiVersion: muster.dev/v1
kind: Session
metadata:
  name: echo
spec:
  components:
    - { name: server, kind: server, pool: workers, image: "node:24", readyPort: 10000 }
    - name: driver
      kind: driver
      pool: drivers
      image: node:24
      command: [node, -e]
      args: ["1"]
      env:
        - { name: LEVEL, value: "7" }
  scenario: { seconds: 5 }
  timeout: 1h30m
`;

const DRIVER = `- { name: driver, kind: driver, pool: drivers, image: i }`;

/** Builds a document whose components are these lines. */
function withComponents(...lines: string[]): string {
  const head = "apiVersion: muster.dev/v1\nkind: Session\nmetadata: { name: echo }\nspec:\n  components:\n";
  return head + lines.map((line) => `    ${line}\n`).join("");
}

/** Builds a document with a driver that sets LEVEL, and whose template contains this line. */
function withTemplate(line: string): string {
  const [open, ...rest] = [
    `- { name: driver, kind: driver, pool: d, image: i, env: [{ name: LEVEL }],`,
    "template:",
    `  { ${line} } }`,
  ];
  return withComponents(open, ...rest.map((each) => `  ${each}`));
}

function parse(file: string, text: string): ParsedDocuments<ReadWork> {
  return parseDocuments(file, text, (document) => readWork(RESOURCES, document));
}

/** Reads the session of a document, and checks that `--dry-run` writes the submitted session. */
function sessionOf({ value: { draft } }: PlacedDocument<ReadWork>): SessionDocument | undefined {
  const read = readSessionDocument(draft.document);
  return read.ok ? read.value : undefined;
}

function problemsOf(text: string): string[] {
  return parse("f.yaml", text).problems.map(describeProblem);
}

describe("a correct file", () => {
  it("gives sessions with all that it states, and leaves out the services' defaults", () => {
    const { documents, problems } = parse("f.yaml", VALID);
    expect(problems).toEqual([]);
    expect(documents.map(sessionOf)).toEqual([
      {
        name: { exact: "echo" },
        spec: {
          components: [
            {
              name: "server",
              kind: "server",
              pool: "workers",
              otherPools: [],
              image: "node:24",
              command: [],
              args: [],
              env: [],
              workingDir: undefined,
              readyPort: 10_000,
              templateJson: undefined,
              shared: undefined,
            },
            {
              name: "driver",
              kind: "driver",
              pool: "drivers",
              otherPools: [],
              image: "node:24",
              command: ["node", "-e"],
              args: ["1"],
              env: [{ name: "LEVEL", value: "7" }],
              workingDir: undefined,
              readyPort: undefined,
              templateJson: undefined,
              shared: undefined,
            },
          ],
          scenarioJson: '{"seconds":5}',
          timeoutMs: 5_400_000,
          queueTimeoutMs: undefined,
          ttlMs: undefined,
          killAfterMs: undefined,
          priority: undefined,
          workerPort: undefined,
        },
      },
    ]);
  });

  it("may give a component a template, which each replica has", () => {
    const template = {
      spec: { containers: [{ name: "main", resources: { limits: { cpu: "500m", memory: "1Gi" } } }] },
    };
    const { documents, problems } = parse(
      "f",
      withComponents(
        `- { name: server, kind: server, pool: w, image: i, replicas: 2, template: ${JSON.stringify(template)} }`,
        DRIVER,
      ),
    );
    expect(problems).toEqual([]);
    const [server, other, driver] = documents.map(sessionOf)[0]?.spec.components ?? [];
    expect(JSON.parse(server?.templateJson ?? "")).toEqual(template);
    expect(other?.templateJson).toBe(server?.templateJson);
    expect(driver?.templateJson).toBeUndefined();
  });

  it("may name several pools of a component in order of preference, and writes them so", () => {
    const { documents, problems } = parse(
      "f",
      withComponents(
        "- { name: server, kind: server, pool: [h100, a100], image: i }",
        DRIVER.replace("drivers", "[d]"),
      ),
    );
    expect(problems).toEqual([]);
    const spec = documents.map(sessionOf)[0]?.spec;
    expect(spec?.components).toMatchObject([
      { pool: "h100", otherPools: ["a100"] },
      { pool: "d", otherPools: [] },
    ]);
    expect(spec && buildSpec(spec)).toMatchObject({ components: [{ pool: ["h100", "a100"] }, { pool: "d" }] });
  });

  it("may give a component a part of a machine", () => {
    const requesting = "{ spec: { containers: [{ name: main, resources: { requests: { cpu: 2 } } }] } }";
    const { documents, problems } = parse(
      "f",
      withComponents(
        `- { name: server, kind: server, pool: w, image: i, shared: true, template: ${requesting} }`,
        `- { name: driver, kind: driver, pool: d, image: i, shared: false }`,
      ),
    );
    expect(problems).toEqual([]);
    const components = documents.map(sessionOf)[0]?.spec.components ?? [];
    expect(components.map(({ shared }) => shared)).toEqual([true, undefined]);
  });

  it("may hold several documents, and empty ones between them", () => {
    const { documents, problems } = parse("f", `---\n${VALID}---\n---\n${VALID.replace("echo", "other")}...\n`);
    expect(problems).toEqual([]);
    expect(documents.map(({ value }) => value.draft.name)).toEqual([{ exact: "echo" }, { exact: "other" }]);
  });

  it("expands replicas into components with a number each", () => {
    const { documents } = parse(
      "f",
      withComponents("- { name: server, kind: server, pool: w, image: i, replicas: 3 }", DRIVER),
    );
    expect(documents.map(sessionOf)[0]?.spec.components.map(({ name }) => name)).toEqual([
      "server-0",
      "server-1",
      "server-2",
      "driver",
    ]);
  });

  it("may state a value once with an anchor, and merge it into other mappings", () => {
    const { documents, problems } = parse(
      "f",
      withComponents(
        "- &server { name: a, kind: server, pool: w, image: i }",
        "- { <<: *server, name: b }",
        "- { <<: *server, name: c, image: other }",
        DRIVER,
      ),
    );
    expect(problems).toEqual([]);
    expect(documents.map(sessionOf)[0]?.spec.components.map(({ name, image }) => `${name} ${image}`)).toEqual([
      "a i",
      "b i",
      "c other",
      "driver i",
    ]);
  });

  it("asks for a generated name with generateName", () => {
    const { documents } = parse("f", VALID.replace("name: echo", "generateName: echo-"));
    expect(documents[0]?.value.draft.name).toEqual({ prefix: "echo-" });
  });
});

describe("every problem is reported with its place", () => {
  it.each<[string, string, string[]]>([
    ["an empty file", "", ["f.yaml:1:1: the file contains no document"]],
    ["a file of comments", "# nothing\n", ["f.yaml:1:1: the file contains no document"]],
    ["a document that is a list", "- 1\n", ["f.yaml:1:1: the document must be a mapping, not a list"]],
    [
      "a field given twice",
      VALID.replace("kind: Session", "kind: Session\nkind: Session"),
      ["f.yaml:3:1: this field is given twice"],
    ],
    [
      "an unclosed bracket",
      "a: [1, 2\n",
      ["f.yaml:2:1: not valid YAML: Flow sequence in block collection must be sufficiently indented and end with a ]"],
    ],
    [
      "an alias without an anchor",
      "a: *nothing\n",
      ["f.yaml:1:1: Unresolved alias (the anchor must be set before the alias): nothing"],
    ],
    [
      "another kind",
      VALID.replace("kind: Session", "kind: Sesion"),
      ['f.yaml:2:7: kind: "Sesion" is no kind; did you mean "Session"?'],
    ],
    [
      "an unsupported kind of Kubeflow",
      "apiVersion: kubeflow.org/v1\nkind: MXJob\nmetadata: { name: a }\nspec: {}\n",
      ["f.yaml:2:7: kind: Muster does not run MXJob; of Kubeflow's kinds it runs TFJob, PyTorchJob, MPIJob, JAXJob"],
    ],
    [
      "an unknown kind",
      "apiVersion: v1\nkind: Deployment\n",
      ['f.yaml:2:7: kind: "Deployment" is no kind; known are Session, Job, TFJob, PyTorchJob, MPIJob, JAXJob'],
    ],
    [
      "another version",
      VALID.replace("muster.dev/v1", "v1"),
      ['f.yaml:1:13: apiVersion: must be one of muster.dev/v1, not the string "v1"'],
    ],
    [
      "no name",
      VALID.replace("name: echo", "{}"),
      ["f.yaml:4:3: metadata: lacks name (or generateName, to which random letters are added)"],
    ],
    [
      "a name in capitals",
      VALID.replace("name: echo", "name: Echo"),
      [
        "f.yaml:4:9: metadata.name: \"Echo\" is not a DNS label: lower case letters, digits and '-', beginning and ending with a letter or digit",
      ],
    ],
    [
      "an unknown field, with the nearest right one",
      VALID.replace("timeout:", "timout:"),
      ['f.yaml:17:3: spec: unknown field "timout"; did you mean "timeout"?'],
    ],
    [
      "a misspelt annotation of Muster",
      `apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: train
  annotations: { muster.dev/topolgy: zone }
spec: {}
`,
      [
        'f.yaml:5:18: metadata.annotations.muster.dev/topolgy: has no effect with the string "zone": did you mean "muster.dev/topology"?',
      ],
    ],
    [
      "an unknown field without a similar one",
      VALID.replace("timeout:", "flavour:"),
      [
        'f.yaml:17:3: spec: unknown field "flavour"; known are components, scenario, timeout, queueTimeout, ttl, killAfter, priority, queue, topology, workerPort',
      ],
    ],
    [
      "a topology that is no label",
      VALID.replace("timeout: 1h30m", "topology: rack=a"),
      ['f.yaml:17:13: spec.topology: must be the label of nodes, such as topology.kubernetes.io/zone, not "rack=a"'],
    ],
    [
      "a duration without a unit",
      VALID.replace("1h30m", "90"),
      ["f.yaml:17:12: spec.timeout: must be a duration from 1s to 7d with its unit, such as 90s, not the number 90"],
    ],
    [
      "a duration of nothing",
      VALID.replace("1h30m", "0s"),
      ['f.yaml:17:12: spec.timeout: must be a duration from 1s to 7d with its unit, not the string "0s"'],
    ],
    [
      "a number instead of a string",
      VALID.replace('value: "7"', "value: 7"),
      ['f.yaml:15:33: spec.components[1].env[0].value: must be a string; write "7" with quotes, not the number 7'],
    ],
    [
      "an invalid port",
      VALID.replace("readyPort: 10000", "readyPort: 100000"),
      ["f.yaml:7:81: spec.components[0].readyPort: must be a whole number from 1 to 65535, not the number 100000"],
    ],
    [
      "an unknown field of a template",
      withTemplate("spec: { volumes: [{ name: data, emptyDirr: {} }] }"),
      ['f.yaml:8:43: spec.components[0].template.spec.volumes[0]: unknown field "emptyDirr"; did you mean "emptyDir"?'],
    ],
    [
      "a field of a template that Muster sets",
      withTemplate("spec: { nodeName: node-1, restartPolicy: Always }"),
      [
        'f.yaml:8:29: spec.components[0].template.spec.nodeName: cannot be the string "node-1": the pod runs on the machine that the component\'s pool grants',
        'f.yaml:8:52: spec.components[0].template.spec.restartPolicy: cannot be the string "Always": a component runs once: its pod has Never',
      ],
    ],
    [
      "a template that contradicts its component",
      withTemplate('spec: { containers: [{ name: main, env: [{ name: LEVEL, value: "8" }] }] }'),
      [
        'f.yaml:8:60: spec.components[0].template.spec.containers[0].env[0].name: "LEVEL" is also in the component\'s env; leave one out',
      ],
    ],
    [
      "a shared component without requests",
      withComponents("- { name: driver, kind: driver, pool: d, image: i, shared: true }"),
      [
        "f.yaml:6:64: spec.components[0].shared: cannot be true: the component gets the part of a machine that it requests, and it has no template; " +
          "write what its pod needs as spec.containers[0].resources.requests of its template, such as cpu: 500m and memory: 1Gi, " +
          "or leave shared out for a whole machine",
      ],
    ],
    [
      "a component with a text for shared",
      withComponents("- { name: driver, kind: driver, pool: d, image: i, shared: yes please }"),
      ['f.yaml:6:64: spec.components[0].shared: must be true or false, not the string "yes please"'],
    ],
    [
      "a scenario that is not JSON",
      VALID.replace("seconds: 5", "seconds: .inf"),
      ["f.yaml:16:24: spec.scenario.seconds: cannot be expressed in JSON; write it as a string"],
    ],
    [
      "no components",
      VALID.replace(/ {2}components:[^]*scenario/, "  scenario"),
      ["f.yaml:6:3: spec: lacks components"],
    ],
    [
      "an empty list of components",
      VALID.replace(/components:[^]*scenario/, "components: []\n  scenario"),
      ["f.yaml:6:15: spec.components: is empty; a session has exactly one driver, and usually workers"],
    ],
    [
      "empty components",
      VALID.replace(/components:[^]*scenario/, "components:\n  scenario"),
      ["f.yaml:6:3: spec.components: must be a list, not empty"],
    ],
    [
      "no driver",
      withComponents("- { name: a, kind: server, pool: w, image: i }"),
      ["f.yaml:6:5: spec.components: has no driver; a session has exactly one"],
    ],
    [
      "two drivers",
      withComponents(DRIVER, "- { name: again, kind: driver, pool: w, image: i }"),
      ["f.yaml:7:28: spec.components[1].kind: is a second driver; a session has exactly one"],
    ],
    [
      "a driver with replicas",
      withComponents("- { name: d, kind: driver, pool: w, image: i, replicas: 2 }"),
      ["f.yaml:6:24: spec.components[0].kind: is a second driver; a session has exactly one"],
    ],
    [
      "two components of one name",
      withComponents(DRIVER, "- { name: driver, kind: server, pool: w, image: i }"),
      ['f.yaml:7:15: spec.components[1].name: "driver" is the name of two components'],
    ],
    [
      "an unknown kind of component",
      withComponents("- { name: d, kind: dirver, pool: w, image: i }"),
      [
        'f.yaml:6:24: spec.components[0].kind: must be one of driver, server, client, not the string "dirver"; did you mean "driver"?',
      ],
    ],
    [
      "a component without a pool and an image",
      withComponents("- { name: d, kind: driver }"),
      [
        "f.yaml:6:7: spec.components[0]: lacks pool",
        "f.yaml:6:7: spec.components[0]: lacks image (or a command, for the default image)",
      ],
    ],
    [
      "a component whose name is no DNS label",
      withComponents(DRIVER, "- { name: a_b, kind: server, pool: w, image: i }"),
      [
        "f.yaml:7:15: spec.components[1].name: \"a_b\" is not a DNS label: lower case letters, digits and '-', beginning and ending with a letter or digit",
      ],
    ],
    [
      "a pool that is no label value",
      withComponents(DRIVER, '- { name: a, kind: server, pool: "a b", image: i }'),
      [
        "f.yaml:7:38: spec.components[1].pool: \"a b\" is not a label value: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
      ],
    ],
    [
      "a list of no pool",
      withComponents(DRIVER, "- { name: a, kind: server, pool: [], image: i }"),
      ["f.yaml:7:38: spec.components[1].pool: is empty; the name of a pool is needed"],
    ],
    [
      "a list with a pool that is no text",
      withComponents(DRIVER, "- { name: a, kind: server, pool: [a, 7], image: i }"),
      ['f.yaml:7:42: spec.components[1].pool[1]: must be a string; write "7" with quotes, not the number 7'],
    ],
    [
      "a pool that is named twice",
      withComponents(DRIVER, "- { name: a, kind: server, pool: [a, b, a], image: i }"),
      ['f.yaml:7:45: spec.components[1].pool[2]: "a" is named twice'],
    ],
    [
      "more pools than a component may accept",
      withComponents(DRIVER, `- { name: a, kind: server, pool: [${[..."abcdefghi"].join(", ")}], image: i }`),
      ['f.yaml:7:63: spec.components[1].pool[8]: "i" is one of 9 pools; 8 at most'],
    ],
    [
      "too many combinations of pools",
      withComponents(
        DRIVER.replace("drivers", "[a, b, c]"),
        "- { name: a, kind: server, pool: [b, c, a], image: i }",
        "- { name: b, kind: server, pool: [c, a, b], image: i }",
      ),
      [
        "f.yaml:6:5: spec.components: accept 27 combinations of pools; 16 at most: let more components accept the same pools in the same order",
      ],
    ],
    [
      "environment as a mapping",
      withComponents("- { name: d, kind: driver, pool: w, image: i, env: { A: b } }"),
      ["f.yaml:6:56: spec.components[0].env: must be a list, not a mapping"],
    ],
    [
      "a variable set twice",
      withComponents("- { name: d, kind: driver, pool: w, image: i, env: [{ name: A }, { name: A }] }"),
      ['f.yaml:6:78: spec.components[0].env[1].name: "A" is set twice'],
    ],
    [
      "a relative working directory",
      withComponents("- { name: d, kind: driver, pool: w, image: i, workingDir: here }"),
      ["f.yaml:6:63: spec.components[0].workingDir: must be an absolute path"],
    ],
    [
      "a pod name that is too long",
      withComponents(`- { name: ${"d".repeat(59)}, kind: driver, pool: w, image: i }`),
      [
        `f.yaml:6:15: spec.components[0].name: the session's name and "${"d".repeat(59)}" have 64 characters; 63 at most`,
      ],
    ],
    [
      "an error in a merged mapping, at its position",
      withComponents("- &a { name: a, kind: server, pool: w, image: 5 }", "- { <<: *a, name: b }", DRIVER),
      [
        'f.yaml:6:51: spec.components[0].image: must be a string; write "5" with quotes, not the number 5',
        'f.yaml:6:51: spec.components[1].image: must be a string; write "5" with quotes, not the number 5',
      ],
    ],
  ])("%s", (_title, text, problems) => {
    expect(problemsOf(text)).toEqual(problems);
    expect(parse("f.yaml", text).documents).toEqual([]);
  });

  it("reports every problem of a file together, in the order of lines", () => {
    const broken = VALID.replace("timeout: 1h30m", "timeout: soon\n  colour: red").replace("name: echo", "name: Echo");
    expect(problemsOf(`${VALID}---\n${broken}`).map((line) => line.split(":").slice(1, 3).join(":"))).toEqual([
      "22:9",
      "35:12",
      "36:3",
    ]);
  });

  it("returns the valid documents, and the problems of the others", () => {
    expect(parse("f", `${VALID}---\nkind: Session\n`).documents).toHaveLength(1);
  });
});

describe("errors name the limit that was reached", () => {
  it.each([
    ["bytes of a file", "#".repeat(MAX_FILE_BYTES + 1), `more than ${MAX_FILE_BYTES} bytes`],
    ["documents of a file", "---\na\n".repeat(MAX_DOCUMENTS + 1), `${MAX_DOCUMENTS} at most are read`],
    ["levels of brackets", "[".repeat(100_000), "nested deeper than 100 levels"],
    ["levels of lists", "- ".repeat(20_000), "nested deeper than 100 levels"],
    [
      "components of a session",
      withComponents(`- { name: s, kind: server, pool: w, image: i, replicas: ${SESSION_LIMITS.components} }`, DRIVER),
      `limit of ${SESSION_LIMITS.components} components`,
    ],
    [
      "bytes of an argument",
      withComponents(
        `- { name: d, kind: driver, pool: w, image: i, args: ["${"x".repeat(SESSION_LIMITS.textBytes + 1)}"] }`,
      ),
      `${SESSION_LIMITS.textBytes} at most`,
    ],
    ["aliases of a document", aliasBomb(), "Excessive alias count"],
  ])("%s", (_title, text, message) => {
    const problems = problemsOf(text);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(message);
  });
});

/** Builds nine levels of nine aliases each: a few hundred bytes that would expand to a thousand million values. */
function aliasBomb(): string {
  const levels = ["a: &l0 [x]"];
  for (let level = 1; level < 10; level++)
    levels.push(`b${level}: &l${level} [${Array.from({ length: 9 }, () => `*l${level - 1}`).join(", ")}]`);
  return levels.join("\n");
}

it("reports only that a file is not text", () => {
  const { problems } = parse("f", `\u007fELF\0\0${"\ufffd\n".repeat(5000)}`);
  expect(problems).toEqual([{ file: "f", line: 1, column: 1, message: "the file is not text; a YAML file is needed" }]);
});

describe("for any input", () => {
  const soup = fc.array(
    fc.constantFrom(
      "a",
      ":",
      " ",
      "\n",
      "- ",
      "{",
      "}",
      "[",
      "]",
      "&x",
      "*x",
      "<<: ",
      "!!set ",
      "? ",
      '"',
      "'",
      "|\n",
      "---\n",
      "\t",
      "#",
      ",",
      "%",
      "spec",
      "components",
      "\0",
    ),
  );
  it.each([
    ["text", fc.string({ unit: "binary" })],
    ["YAML's own signs", soup.map((parts) => parts.join(""))],
    [
      "a document that is cut and shuffled",
      fc
        .tuple(fc.nat(VALID.length), fc.nat(30), soup)
        .map(([at, cut, parts]) => VALID.slice(0, at) + parts.join("") + VALID.slice(at + cut)),
    ],
    ["any data as YAML", fc.jsonValue().map((value) => stringify(value))],
  ])("never throws, and gives a document or a problem: %s", (_title, texts) => {
    fc.assert(
      fc.property(texts, (text) => {
        const { documents, problems } = parse("f", text);
        expect(documents.length + problems.length).toBeGreaterThan(0);
        const lines = text.split("\n").length;
        for (const { line, column } of problems) {
          expect(line).toBeGreaterThanOrEqual(1);
          expect(line).toBeLessThanOrEqual(lines);
          expect(column).toBeGreaterThanOrEqual(1);
        }
      }),
    );
  });

  it("a session that is written as YAML is read as the same session", () => {
    fc.assert(
      fc.property(fc.array(makeAnySession(), { minLength: 1, maxLength: 3 }), (documents) => {
        const text = documents.map((document) => stringify(buildDocument(document))).join("---\n");
        const parsed = parse("f", text);
        expect(parsed.problems).toEqual([]);
        expect(parsed.documents.map(sessionOf)).toEqual(documents);
      }),
    );
  });
});
