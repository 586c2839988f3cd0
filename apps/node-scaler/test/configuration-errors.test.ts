import { expect, it } from "vitest";
import { PROVIDER_KINDS } from "../src/adapters/providers.ts";
import { readConfig } from "../src/config.ts";

const FILE = "/etc/muster/pools.yaml";
/** The readable files in addition to the file of pools. */
const OTHERS = new Map([
  ["/token", "secret"],
  ["/empty", "\n"],
]);

function problemOf(text: string | undefined, env: Readonly<Record<string, string>> = { NODE_SCALER_FILE: FILE }) {
  const readText = (path: string): string => {
    const found = path === FILE ? text : OTHERS.get(path);
    if (found === undefined) throw new Error(`ENOENT: no such file or directory, open '${path}'`);
    return found;
  };
  try {
    readConfig(env, { readText, kinds: PROVIDER_KINDS });
  } catch (error) {
    return error instanceof Error ? error.message : "";
  }
  return "it was taken";
}

const LOCAL = "kind: local, url: 'http://127.0.0.1:1', tokenFile: /token";
const provider = (fields: string) => `providers: { here: { ${fields} } }`;
const pool = (fields: string) =>
  `${provider(LOCAL)}\npools: [{ name: a, provider: here, max: 4, instanceTypes: [{ name: small }], ${fields} }]`;

it.each([
  ["no variable's value", undefined, "NODE_SCALER_FILE: is empty: the path of the file of pools is needed"],
  ["an empty file", "", "the file is empty: providers and pools are needed; `pools: []` scales nothing"],
  ["a file of comments", "# later\n", "the file is empty: providers and pools are needed"],
  ["no map", "pools", 'the file is "pools": a map of fields is needed'],
  ["a volume without a unit", pool("volume: 20"), "pools[0].volume is 20: a quantity above 0 such as 20Gi is needed"],
  ["a volume that is a list", pool("volume: []"), "pools[0].volume is []: a quantity above 0 such as 20Gi is needed"],
  ["a volume that is nothing", pool("volume: "), "pools[0].volume is null: a quantity above 0 such as 20Gi is needed"],
  ["an idle time without a unit", pool("idle: 5"), "pools[0].idle is 5: a duration such as 90s, 5m or 1h30m is needed"],
  ["a boot that takes days", pool("bootTimeout: 3d"), 'pools[0].bootTimeout is "3d": at most 24h is possible'],
  ["zones that are no list", pool("zones: a"), 'pools[0].zones is "a": a list is needed'],
  ["zones without one", pool("zones: []"), "pools[0].zones is []: must not be empty"],
  ["an image that is a name", pool("bootImage: x"), 'pools[0].bootImage is "x": a map of fields is needed'],
  ["a label that is the pool's", pool("labels: { pool: b }"), 'pools[0].labels.pool is "b": the scaler itself gives'],
  [
    "a label of Muster's own",
    pool("labels: { muster.dev/node: b }"),
    'labels.muster.dev/node is "b": the scaler itself gives nodes this label',
  ],
  ["labels that are a list", pool("labels: [a]"), "pools[0].labels: a map of fields is needed"],
  ["a flag that is a word", pool("reuse: maybe"), 'pools[0].reuse is "maybe": true or false is needed'],
  [
    "a spot policy that is a flag",
    pool("spot: true"),
    "pools[0].spot is true: one of Never, Always, Preferred is needed",
  ],
  ["standby that is a number", pool("standby: 2"), "pools[0].standby is 2: a list is needed"],
  ["standby of nothing", pool("standby: [{ count: 1 }]"), "pools[0].standby[0].instanceType: is missing"],
  [
    "a token that cannot be read",
    provider("kind: local, url: 'http://127.0.0.1:1', tokenFile: /nowhere"),
    `providers.here.tokenFile is "/nowhere": a file that can be read is needed (ENOENT: no such file or directory, open '/nowhere')`,
  ],
  [
    "a token that is empty",
    provider("kind: local, url: 'http://127.0.0.1:1', tokenFile: /empty"),
    'providers.here.tokenFile is "/empty": the file is empty',
  ],
  [
    "a URL that is none",
    provider("kind: local, url: here, tokenFile: /token"),
    'providers.here.url is "here": a URL such as https://host:8443 is needed',
  ],
  [
    "user data that cannot be read",
    provider("kind: ec2, region: r, controller: c, subnets: [subnet-1], userDataFile: /nowhere"),
    'providers.here.userDataFile is "/nowhere": a file that can be read is needed',
  ],
  [
    "a subnet by its name",
    provider("kind: ec2, region: r, controller: c, subnets: [mine], userDataFile: /token"),
    'providers.here.subnets[0] is "mine": has to look like subnet-0a1b2c3d',
  ],
  [
    "a controller that is no label",
    provider("kind: karpenter, controller: A_b, nodeClass: { group: g, kind: k, name: n }"),
    'providers.here.controller is "A_b": has to be lower case letters, digits and dashes, 63 at most',
  ],
  ["no node class", provider("kind: karpenter, controller: c"), "providers.here.nodeClass: is missing"],
  [
    "no deployments",
    provider("kind: cluster-api, controller: c, namespace: n, deployments: []"),
    "providers.here.deployments is []: must not be empty",
  ],
  [
    "a kind of no provider",
    provider("kind: gce"),
    'providers.here.kind is "gce": one of cluster-api, ec2, karpenter, local is needed',
  ],
])("names path, value and a valid value of %s", (_what, text, problem) => {
  const env = text === undefined ? { NODE_SCALER_FILE: " " } : { NODE_SCALER_FILE: FILE };
  expect(problemOf(text, env)).toContain(problem);
  expect(problemOf(text, env)).toContain(text === undefined ? "NODE_SCALER_FILE" : FILE);
});

it.each([
  ["NODE_SCALER_POOL_INTERVAL_MS", "7s", "NODE_SCALER_POOL_INTERVAL_MS"],
  ["NODE_SCALER_BOOTS_PER_ROUND", "0", "NODE_SCALER_BOOTS_PER_ROUND"],
  ["MUSTER_NATS_URL", "here", "MUSTER_NATS_URL"],
  ["NODE_SCALER_NAME", "A b", "NODE_SCALER_NAME"],
])("names the variable %s if it is %s", (name, value, problem) => {
  expect(problemOf("{}", { NODE_SCALER_FILE: FILE, [name]: value })).toContain(problem);
});

it("names problems in one pool together with problems between others, and one variable per line", () => {
  const types = "instanceTypes: [{ name: small }]";
  const good = `{ name: a, provider: here, max: 1, ${types} }`;
  const text = `${provider(LOCAL)}\npools: [${good}, { name: a, provider: there, max: 1, ${types} }, { name: c }]`;
  const env = { NODE_SCALER_FILE: FILE, NODE_SCALER_BOOTS_PER_ROUND: "0", MUSTER_NATS_URL: "here" };
  const lines = problemOf(text, env).split("\n");
  for (const begin of [
    "MUSTER_NATS_URL is",
    "NODE_SCALER_BOOTS_PER_ROUND is",
    'pools[1].name is "a": another pool has this name',
    'pools[1].provider is "there": one of here is needed',
    "pools[2].max: is missing",
  ])
    expect(lines.filter((line) => line.includes(begin))).toHaveLength(1);
});

it("accepts valid settings", () => {
  expect(problemOf(pool("volume: 20Gi"))).toBe("it was taken");
});
