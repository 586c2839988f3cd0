import { beforeAll, describe, expect, it } from "vitest";
import { type JsonObject, getList, getObject, getText } from "../../src/apiserver/json.ts";
import type { Answer, Api } from "./api.ts";
import { makeKubectl } from "./run-kubectl.ts";

const GROUP = "rbac.authorization.k8s.io";
const RULE = { apiGroups: [""], resources: ["pods"], verbs: ["get", "list"] };
const ROLE_REF = { apiGroup: GROUP, kind: "Role", name: "reader" };
const ACCOUNT = { kind: "ServiceAccount", name: "robot", namespace: "default" };

/** Roles and bindings as objects; their effect on requests is tested elsewhere. */
export function describeRoles(api: () => Api): void {
  const kubectl = makeKubectl(api);
  const at = (plural: string, name = ""): string =>
    `/apis/${GROUP}/v1/namespaces/${kubectl.namespace()}/${plural}/${name}`.replace(/\/$/, "");
  const everywhere = (plural: string, name = ""): string => `/apis/${GROUP}/v1/${plural}/${name}`.replace(/\/$/, "");
  const causes = ({ body }: Answer): string[] =>
    getList(body, "details", "causes").map((cause) => `${getText(cause, "field")}: ${getText(cause, "message")}`);
  const withoutMetadata = ({ body }: Answer): JsonObject =>
    Object.fromEntries(Object.entries(body).filter(([key]) => key !== "metadata"));

  describe("a role", () => {
    it("is kept as it was written, under a name with colons", async () => {
      const made = await api().post(at("roles"), { metadata: { name: "system:reader" }, rules: [RULE] });
      expect(made.code, made.text).toBe(201);
      const read = await api().get(at("roles", "system:reader"));
      expect(withoutMetadata(read)).toEqual({ apiVersion: `${GROUP}/v1`, kind: "Role", rules: [RULE] });
    });

    it("without rules has an empty list, also after a change", async () => {
      const made = await api().post(at("roles"), { metadata: { name: "idle" } });
      expect(withoutMetadata(made)).toEqual({ apiVersion: `${GROUP}/v1`, kind: "Role", rules: null });
      const changed = await api().patch(at("roles", "idle"), "merge", { metadata: { labels: { a: "b" } } });
      expect(withoutMetadata(changed)).toEqual({ apiVersion: `${GROUP}/v1`, kind: "Role", rules: null });
    });

    it("is created by an update of a missing one", async () => {
      const role = { metadata: { name: "put" }, rules: [RULE] };
      expect((await api().put(at("roles", "put"), role)).code).toBe(201);
      expect((await api().put(at("roles", "put"), role)).code).toBe(200);
    });

    it.each([
      [
        { apiGroups: [""], resources: ["pods"], verbs: [] },
        ["rules[0].verbs: Required value: verbs must contain at least one value"],
      ],
      [
        { verbs: ["get"] },
        [
          "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
          "rules[0].resources: Required value: resource rules must supply at least one resource",
        ],
      ],
      [
        { nonResourceURLs: ["/healthz"], verbs: ["get"] },
        ['rules[0].nonResourceURLs: Invalid value: ["/healthz"]: namespaced rules cannot apply to non-resource URLs'],
      ],
    ])("cannot have the rule %j", async (rule, because) => {
      const refused = await api().post(at("roles"), { metadata: { name: "refused" }, rules: [rule] });
      expect(refused.code).toBe(422);
      expect(causes(refused)).toEqual(because);
    });

    it("of the whole cluster may concern paths, but not paths and resources together", async () => {
      const name = `${kubectl.namespace()}-paths`;
      const paths = { nonResourceURLs: ["/healthz"], verbs: ["get"] };
      const made = await api().post(everywhere("clusterroles"), { metadata: { name }, rules: [paths] });
      expect(made.code, made.text).toBe(201);
      const rules = [{ ...RULE, ...paths }];
      const refused = await api().patch(everywhere("clusterroles", name), "merge", { rules });
      expect(causes(refused)).toEqual([
        'rules[0].nonResourceURLs: Invalid value: ["/healthz"]: rules cannot apply to both regular resources and non-resource URLs',
      ]);
      const aggregated = await api().post(everywhere("clusterroles"), {
        metadata: { name: `${name}-none` },
        aggregationRule: {},
      });
      expect(causes(aggregated)).toEqual([
        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
      ]);
      await api().delete(everywhere("clusterroles", name));
    });
  });

  describe("a binding", () => {
    it("fills in the API group of what it names, and stays with its role", async () => {
      const made = await api().post(at("rolebindings"), {
        metadata: { name: "filled" },
        roleRef: { kind: "Role", name: "reader" },
        subjects: [ACCOUNT, { kind: "User", name: "ann" }, { kind: "Group", name: "all" }],
      });
      expect(made.code, made.text).toBe(201);
      expect(made.body["roleRef"]).toEqual(ROLE_REF);
      expect(made.body["subjects"]).toEqual([
        ACCOUNT,
        { apiGroup: GROUP, kind: "User", name: "ann" },
        { apiGroup: GROUP, kind: "Group", name: "all" },
      ]);
      const moved = await api().patch(at("rolebindings", "filled"), "merge", { roleRef: { name: "writer" } });
      expect(moved.code).toBe(422);
      expect(causes(moved)).toEqual([
        `roleRef: Invalid value: {"APIGroup":"${GROUP}","Kind":"Role","Name":"writer"}: cannot change roleRef`,
      ]);
    });

    it.each([
      [
        { roleRef: { ...ROLE_REF, kind: "Rule" } },
        ['roleRef.kind: Unsupported value: "Rule": supported values: "Role", "ClusterRole"'],
      ],
      [{ roleRef: { ...ROLE_REF, name: "" } }, ["roleRef.name: Required value"]],
      [
        { roleRef: { ...ROLE_REF, apiGroup: "other" } },
        [`roleRef.apiGroup: Unsupported value: "other": supported values: "${GROUP}"`],
      ],
      [
        { subjects: [{ kind: "Robot", name: "a" }] },
        ['subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'],
      ],
      [
        { subjects: [{ ...ACCOUNT, name: "A", apiGroup: GROUP }] },
        [
          expect.stringMatching(/^subjects\[0\]\.name: Invalid value: "A": a lowercase RFC 1123 subdomain must/),
          `subjects[0].apiGroup: Unsupported value: "${GROUP}": supported values: ""`,
        ],
      ],
      [{ subjects: [{ kind: "User" }] }, ["subjects[0].name: Required value"]],
    ])("cannot have %j", async (wrong, because) => {
      const refused = await api().post(at("rolebindings"), {
        metadata: { name: "refused" },
        roleRef: ROLE_REF,
        ...wrong,
      });
      expect(refused.code).toBe(422);
      expect(causes(refused)).toEqual(because);
    });

    it("for the whole cluster names a role of the cluster, and where its accounts are", async () => {
      const refused = await api().post(everywhere("clusterrolebindings"), {
        metadata: { name: `${kubectl.namespace()}-refused` },
        roleRef: ROLE_REF,
        subjects: [{ kind: "ServiceAccount", name: "robot" }],
      });
      expect(causes(refused)).toEqual([
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
        "subjects[0].namespace: Required value",
      ]);
    });
  });

  describe.skipIf(kubectl.skip)(kubectl.title, () => {
    beforeAll(async () => {
      for (const command of [
        "role reader --verb=get,list --resource=pods",
        "rolebinding reads --role=reader --serviceaccount=default:robot --user=ann",
      ]) {
        const made = await kubectl.run("create", ...command.split(" "));
        expect(made.code, made.err).toBe(0);
      }
    });

    it("creates and shows roles and bindings", async () => {
      const { out } = await kubectl.run("get", "role/reader", "rolebinding/reads", "--no-headers");
      expect(out).toMatch(/reader[^]*reads/);
    });

    it("describes and explains them", async () => {
      const described = await kubectl.run("describe", "role", "reader");
      expect(described.out).toMatch(
        /Resources +Non-Resource URLs +Resource Names +Verbs\n.*\n +pods +\[\] +\[\] +\[get list\]/,
      );
      expect((await kubectl.run("describe", "rolebinding", "reads")).out).toMatch(/ServiceAccount +robot +default\n/);
      const explained = await kubectl.run("explain", "rolebinding.roleRef");
      expect(explained.out).toMatch(/KIND: +RoleBinding\nVERSION: +v1\n/);
      expect(explained.out).toMatch(/ {2}kind\t<string> -required-/);
    });

    it("deletes them", async () => {
      const gone = await kubectl.run("delete", "rolebinding/reads", "role/reader");
      expect(gone.out).toContain('rolebinding.rbac.authorization.k8s.io "reads" deleted');
      expect(getObject((await api().get(at("roles", "reader"))).body, "details")).toMatchObject({ kind: "roles" });
    });
  });
}
