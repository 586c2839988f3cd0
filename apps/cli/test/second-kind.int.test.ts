import { throwFault } from "@muster/faults";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import type { Work } from "../src/domain/work.ts";
import type { WorkKind } from "../src/kinds/kind.ts";
import type { ApplyOperations, ResourceRow } from "../src/kinds/resource.ts";
import { SESSION } from "../src/kinds/session.ts";
import { makeWorkResource } from "../src/kinds/work.ts";
import { inProcess } from "./in-process.ts";
import { session } from "./session-fixture.ts";

let server: TestNats;
beforeAll(async () => {
  server = await startTestNats();
});
afterAll(() => server[Symbol.asyncDispose]());

/** The errands of a service. Each is over at its second read. */
const errands = new Map<string, Work>();
beforeEach(() => {
  errands.clear();
});

function errand(name: string, outcome?: Work["outcome"]): Work {
  const events = outcome === undefined ? ["SENT"] : ["SENT", outcome === "success" ? "HOME" : "LOST"];
  const blank = { atMs: 0, description: "", reason: "" };
  return {
    ...session([]),
    kind: "errand",
    name,
    uid: `uid-${name}`,
    revision: `r${events.length}`,
    events: events.map((phase) => ({ ...blank, phase })),
    components: [{ ...WALKER, state: outcome === "failure" ? "FAILED" : "READY" }],
    facts: [["way", "long"]],
    spec: { way: "long" },
    outcome,
    finishedAtMs: outcome === undefined ? undefined : 1000,
  };
}

const WALKER = {
  name: "walker",
  kind: "walker",
  pool: "p",
  node: "n",
  pod: "",
  podIp: "",
  message: "",
  exitCode: undefined,
};

function find(name: string): Work {
  return errands.get(name) ?? throwFault({ code: "not_found", kind: "errand", id: name });
}

function keep(work: Work): Promise<Work> {
  errands.set(work.name, work);
  return Promise.resolve(work);
}

/** The smallest complete kind. */
const ERRAND: WorkKind = {
  noun: "errand",
  plural: "errands",
  controller: "errand controller",
  documents: ["Errand"],
  schema: () => ({ title: "an errand" }),
  read: (document) => {
    const way = (document as { spec?: { way?: unknown } }).spec?.way;
    if (way !== "long")
      return { ok: false, findings: [{ path: ["spec", "way"], at: "value", message: "must be long" }] };
    const { name } = (document as { metadata: { name: string } }).metadata;
    return {
      ok: true,
      value: {
        name: { exact: name },
        document: { kind: "Errand", metadata: { name }, spec: { way } },
        submit: (_link, request) => keep(errand(request.name)),
      },
    };
  },
  conditions: ["Home"],
  goneBy: () => "it is forgotten soon",
  calls: () => ({
    get: (name) => Promise.resolve().then(() => find(name)),
    after: ({ name }) => keep(errand(name, name === "astray" ? "failure" : "success")),
    list: () => Promise.resolve([...errands.values()]),
    cancel: (name) => keep({ ...find(name), cancelRequested: true }),
    log: (name, component) => {
      const bytes = new TextEncoder().encode(`${name} ${component}\n`);
      return Promise.resolve({
        bytes,
        next: { offset: bytes.length, run: "" },
        pod: "",
        complete: true,
        truncated: false,
      });
    },
    onEvent: () => Promise.resolve({ [Symbol.asyncDispose]: () => Promise.resolve() }),
  }),
  explain: (_link, name) => {
    const { outcome } = find(name);
    const isOver = outcome !== undefined;
    return Promise.resolve({
      ...{ kind: "errand", name, phase: isOver ? "HOME" : "SENT", sinceMs: 0, isOver, more: [] },
      reason: { code: isOver ? "BACK" : "ON_ITS_WAY", message: "it walks", next: "" },
      ...{ reservation: undefined, scaling: undefined },
    });
  },
};

type Shelf = { readonly name: string; readonly depth: number };

const shelves = new Map<string, Shelf>();

function findShelf(name: string): Shelf {
  return shelves.get(name) ?? throwFault({ code: "not_found", kind: "shelf", id: name });
}

/** The smallest complete resource that is no work and can be applied. */
const SHELF: ResourceRow<Shelf> = {
  noun: "shelf",
  plural: "shelves",
  missing: "`muster get shelves` shows those that exist",
  none: "no shelves",
  get: (_connected, name) => Promise.resolve().then(() => findShelf(name)),
  list: () => Promise.resolve([...shelves.values()]),
  nameOf: ({ name }) => name,
  table: (all) => all.map(({ name, depth }) => `${name} is ${depth} deep`),
  record: (shelf) => shelf,
  describe: ({ name }) => [`all of ${name}`],
  waiting: {
    conditions: ["Deep"],
    decide: ({ depth }, goal) => (goal.kind !== "delete" && depth > 1 === goal.isTrue ? "met" : "open"),
    describe: ({ name }) => `shelf ${name} is there`,
  },
  explain: (_cli, _connected, name) => {
    const { depth } = findShelf(name);
    return Promise.resolve({ table: () => [`${name} is ${depth} deep: MEASURED`], data: () => ({ depth }) });
  },
  delete: (cli, name) => {
    shelves.delete(name);
    cli.io.out([`shelf/${name} deleted`]);
    return Promise.resolve(0);
  },
  documents: {
    words: ["Shelf"],
    elsewhere: () => "a Shelf is applied: use `muster apply -f FILE`",
    read: (document) => {
      const { metadata, depth } = document as { metadata: { name: string }; depth: number };
      return { ok: true, value: { name: metadata.name, depth } };
    },
    applying: {
      titleOf: ({ name }: Shelf) => `shelf ${name}`,
      prepare: (cli, documents) => {
        const problems = documents.flatMap(({ value: { depth }, placeOf }) =>
          depth > 0 ? [] : [{ ...placeOf("depth"), message: "depth: must be more than nothing" }],
        );
        const send = () => {
          for (const { value } of documents) shelves.set(value.name, value);
          cli.io.out(documents.map(({ value }) => `shelf/${value.name} created`));
          return Promise.resolve({ code: 0 as const, records: [] });
        };
        return Promise.resolve(() => Promise.resolve({ problems, send }));
      },
    } satisfies ApplyOperations<Shelf>,
  },
  schema: { word: "shelf", build: () => ({ title: "a shelf" }) },
};

function documentOf(name: string, way = "long"): string {
  return `kind: Errand\nmetadata: { name: ${name} }\nspec: { way: ${way} }\n`;
}

function muster(line: string, file = "") {
  return inProcess(line.split(" "), {
    url: server.url,
    token: server.token,
    resources: [makeWorkResource(SESSION), makeWorkResource(ERRAND), SHELF],
    file,
  });
}

it("runs a document by its kind and follows the work to its end", async () => {
  const { code, out, err } = await muster("run -", documentOf("bread"));
  expect(err.join("\n")).toMatch(/bread {2}SENT[^]*bread {2}HOME/);
  expect(out).toEqual([expect.stringMatching(/^errand bread HOME after/)]);
  expect(code).toBe(0);
});

it("shows the log of failed work, and the name that finds it", async () => {
  const { code, err } = await muster("run -", documentOf("astray"));
  expect(code).toBe(1);
  expect(err).toContain("last lines of walker (`muster logs errand/astray walker` shows all):");
  expect(err).toContain("  astray walker");
});

it("refuses documents of several kinds together, each by the rules of its kind", async () => {
  const wrong = `${documentOf("a", "short")}---\nkind: Session\n---\nkind: Errant\n`;
  const { code, err } = await muster("run -", wrong);
  expect(code).toBe(2);
  expect(err).toContain("error: stdin:3:14: spec.way: must be long");
  expect(err).toContain("error: stdin:5:1: document 2 (Session) lacks spec");
  expect(err).toContainEqual(expect.stringContaining('kind: "Errant" is no kind; did you mean "Errand"?'));
  expect(errands.size).toBe(0);
});

it("distinguishes two documents of one name by their kind", async () => {
  const both = `${documentOf("x")}---
apiVersion: muster.dev/v1
kind: Session
metadata: { name: x }
spec: { components: [{ name: driver, kind: driver, pool: p, image: i }] }
`;
  const { code, out } = await muster("run - --dry-run -o json", both);
  expect(code).toBe(0);
  expect(JSON.parse(out.join("\n"))).toMatchObject([{ kind: "Errand" }, { kind: "Session" }]);
});

it.each<[line: string, code: number, out: RegExp]>([
  ["get errands", 0, /NAME +PHASE[^]*milk +SENT/],
  ["get errand milk", 0, /milk +SENT/],
  ["describe errand milk", 0, /ERRAND +milk[^]*way +long[^]*SENT/],
  ["events errand/milk", 0, /TIME +ERRAND[^]*milk[^]*SENT/],
  ["events errands", 0, /milk[^]*SENT/],
  ["logs errand/milk walker", 0, /^milk walker$/],
  ["cancel errand/milk", 0, /errand milk is being cancelled; `muster describe errand milk`/],
  ["schema errand", 0, /"title": "an errand"/],
  ["__complete -- get errands m", 0, /^milk$/],
  ["__complete -- logs errand/milk w", 0, /^walker$/],
  ["__complete -- get e", 0, /^errands\nerrand$/],
  ["__complete -- describe e", 0, /^errand$/],
])("muster %s", async (line, code, out) => {
  await keep(errand("milk"));
  const ended = await muster(line);
  expect(ended.err).toEqual([]);
  expect(ended.out.join("\n").trimEnd()).toMatch(out);
  expect(ended.code).toBe(code);
});

it("lists the known kinds when a kind is unknown", async () => {
  expect(await muster("cancel errant/milk")).toMatchObject({
    code: 2,
    err: ['error: "errant" is no kind; did you mean "errand/milk"?'],
  });
  expect(await muster("logs pod/milk")).toMatchObject({
    code: 2,
    err: ['error: "pod" is no kind; known are session, errand'],
  });
  expect(await muster("cancel errand/")).toMatchObject({
    code: 2,
    err: ['error: the name is missing after "errand/"'],
  });
  expect(await muster("get errand none")).toMatchObject({ code: 4, err: ["error: errand none does not exist"] });
});

it.each<[line: string, code: number, out: RegExp, err: RegExp]>([
  ["get shelves", 0, /^oak is 2 deep$/, /^$/],
  ["get shelf oak -o json", 0, /"depth": 2/, /^$/],
  ["get shelf elm", 4, /^$/, /shelf elm does not exist\nhint: `muster get shelves` shows those that exist/],
  ["get shelfs", 2, /^$/, /Did you mean shelf\?/],
  ["describe shelf/oak", 0, /^all of oak$/, /^$/],
  ["explain shelf/oak", 0, /^oak is 2 deep: MEASURED$/, /^$/],
  ["wait shelf/oak --for=condition=Deep", 0, /^shelf\/oak condition met$/, /^$/],
  [
    "wait shelf/oak --for=condition=Deep=false --timeout 0s",
    1,
    /^$/,
    /waiting for condition Deep=false: .*\n.*explain shelf/,
  ],
  ["wait shelf/oak --for=condition=Dep", 2, /^$/, /a shelf has no condition "Dep"\nhint: did you mean "Deep"\?/],
  ["events shelf/oak", 2, /^$/, /a shelf has no events/],
  ["cancel shelf/oak", 2, /^$/, /"shelf" is no kind/],
  ["schema shelf", 0, /"title": "a shelf"/, /^$/],
  ["__complete -- get shelves o", 0, /^oak$/, /^$/],
  ["__complete -- wait shelf/oak --for condition=D", 0, /^condition=Deep$/, /^$/],
  ["delete shelf/oak", 0, /^shelf\/oak deleted$/, /^$/],
])("muster %s, of a resource that is no work", async (line, code, out, err) => {
  shelves.set("oak", { name: "oak", depth: 2 });
  const ended = await muster(line);
  expect(ended.err.join("\n")).toMatch(err);
  expect(ended.out.join("\n")).toMatch(out);
  expect(ended.code).toBe(code);
});

it("applies documents of a resource once all are valid, and runs none of them", async () => {
  shelves.clear();
  const documentOfDepth = (depth: number) => `kind: Shelf\nmetadata: { name: elm-${depth} }\ndepth: ${depth}\n`;
  const wrong = await muster("apply -f f", `${documentOfDepth(1)}---\n${documentOfDepth(0)}`);
  expect(wrong).toMatchObject({ code: 2, out: [] });
  expect(wrong.err).toContain("error: f:7:8: depth: must be more than nothing");
  expect(shelves.size).toBe(0);
  expect(await muster("apply -f f", documentOfDepth(1))).toEqual({ code: 0, out: ["shelf/elm-1 created"], err: [] });
  expect(await muster("run f", documentOfDepth(1))).toMatchObject({
    code: 2,
    err: expect.arrayContaining(["error: f:1:7: kind: a Shelf is applied: use `muster apply -f FILE`"]) as unknown,
  });
});
