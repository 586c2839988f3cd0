import { expect, it } from "vitest";
import { until } from "@muster/testkit";
import { at, isObject, getObject, getText } from "../../src/apiserver/json.ts";
import { type Answer, type Api, configMap } from "./api.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS = "/apis/authorization.k8s.io/v1";

/** Tokens of service accounts, and the rights of their bearers. */
export function describeAccounts(api: () => Api): void {
  const tokenPath = (namespace: string, name = "robot"): string =>
    `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
  const tokenOf = ({ body }: Answer): string => getText(body, "status", "token");

  async function account(): Promise<{ namespace: string; token: string }> {
    const namespace = await api().namespace();
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    expect((await api().post(accounts, { metadata: { name: "robot" } })).code).toBe(201);
    const made = await api().post(tokenPath(namespace), {});
    expect(made.code, made.text).toBe(201);
    return { namespace, token: tokenOf(made) };
  }

  async function bind(namespace: string, rules: readonly object[]): Promise<void> {
    const base = `${RBAC}/namespaces/${namespace}`;
    await api().post(`${base}/roles`, { metadata: { name: "tender" }, rules });
    const bound = await api().post(`${base}/rolebindings`, {
      metadata: { name: "tends" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "tender" },
      subjects: [{ kind: "ServiceAccount", name: "robot", namespace }],
    });
    expect(bound.code, bound.text).toBe(201);
  }

  it("issues a token with its account, expiry and audience", async () => {
    const { namespace } = await account();
    const request = { kind: "TokenRequest", apiVersion: "authentication.k8s.io/v1", metadata: { name: "robot" } };
    const made = await api().post(tokenPath(namespace), { ...request, spec: { expirationSeconds: 7200 } });
    expect(made.body).toMatchObject({
      kind: "TokenRequest",
      apiVersion: "authentication.k8s.io/v1",
      metadata: { name: "robot", namespace },
      spec: { audiences: ["https://kubernetes.default.svc"], expirationSeconds: 7200, boundObjectRef: null },
    });
    const claims: unknown = JSON.parse(Buffer.from(tokenOf(made).split(".")[1] ?? "", "base64url").toString());
    const { exp = 0, iat = 0, ...rest } = isObject(claims) ? claims : {};
    expect(Number(exp) - Number(iat)).toBe(7200);
    expect(getText(made.body, "status", "expirationTimestamp")).toBe(
      new Date(Number(exp) * 1000).toISOString().replace(".000", ""),
    );
    const uid = getText(made.body, "metadata", "uid");
    expect(rest).toMatchObject({
      aud: ["https://kubernetes.default.svc"],
      iss: "https://kubernetes.default.svc",
      "kubernetes.io": { namespace, serviceaccount: { name: "robot", uid } },
      sub: `system:serviceaccount:${namespace}:robot`,
    });
    const self = { kind: "SelfSubjectReview", apiVersion: "authentication.k8s.io/v1" };
    const who = await api().call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {
      body: self,
      token: tokenOf(made),
    });
    expect(getObject(who.body, "status", "userInfo")).toMatchObject({
      username: `system:serviceaccount:${namespace}:robot`,
      uid,
      groups: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"],
    });
  });

  it.each([
    [{ spec: { expirationSeconds: 599 } }, 422, "may not specify a duration less than 10 minutes"],
    [{ spec: { expirationSeconds: 2 ** 32 + 1 } }, 422, "may not specify a duration larger than 2^32 seconds"],
    [{ metadata: { name: "other" }, spec: {} }, 422, "must match the service account name if specified"],
    [{ kind: "Pod", apiVersion: "v1", spec: {} }, 400, "cannot be handled as a TokenRequest"],
    [{ spec: { expirationSeconds: "x" } }, 400, "cannot be handled as a TokenRequest"],
  ])("refuses to give one for %j", async (request, code, because) => {
    const { namespace } = await account();
    const refused = await api().post(tokenPath(namespace), request);
    expect([refused.code, refused.text]).toEqual([code, expect.stringContaining(because)]);
    expect((await api().post(tokenPath(namespace, "missing"), { spec: {} })).code).toBe(404);
    expect((await api().get(tokenPath(namespace))).code).toBe(405);
  });

  it("refuses a changed token, and one for another audience", async () => {
    const { namespace, token } = await account();
    const other = await api().post(tokenPath(namespace), { spec: { audiences: ["other"] } });
    const [header = "", , signature = ""] = token.split(".");
    const forged = Buffer.from(JSON.stringify({ sub: "system:serviceaccount:default:root" })).toString("base64url");
    for (const wrong of [tokenOf(other), `${header}.${forged}.${signature}`, `${token}x`, "a.b.c"])
      expect((await api().call("GET", "/api", { token: wrong })).code).toBe(401);
    expect((await api().call("GET", "/api", { token })).code).toBe(200);
  });

  it("may read discovery, and nothing else, until a role permits more", async () => {
    const { namespace, token } = await account();
    const inside = `/api/v1/namespaces/${namespace}`;
    const get = (path: string): Promise<Answer> => api().call("GET", path, { token });
    for (const path of ["/api", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/version"])
      expect((await get(path)).code, path).toBe(200);
    const who = `User "system:serviceaccount:${namespace}:robot" cannot`;
    const refusals: readonly (readonly [string, string, string, object])[] = [
      [
        "GET",
        `${inside}/pods`,
        `pods is forbidden: ${who} list resource "pods" in API group "" in the namespace "${namespace}"`,
        { kind: "pods" },
      ],
      [
        "GET",
        `${inside}/pods/a/log`,
        `pods "a" is forbidden: ${who} get resource "pods/log" in API group "" in the namespace "${namespace}"`,
        { kind: "pods", name: "a" },
      ],
      [
        "GET",
        "/api/v1/nodes?watch=1",
        `nodes is forbidden: ${who} watch resource "nodes" in API group "" at the cluster scope`,
        { kind: "nodes" },
      ],
      [
        "DELETE",
        "/apis/apps/v1/deployments",
        `deployments.apps is forbidden: ${who} deletecollection resource "deployments" in API group "apps" at the cluster scope`,
        { kind: "deployments", group: "apps" },
      ],
      ["GET", "/metrics", `forbidden: ${who} get path "/metrics"`, {}],
    ];
    for (const [method, path, message, details] of refusals) {
      const refused = await api().call(method, path, { token });
      expect(refused.body).toMatchObject({ code: 403, reason: "Forbidden", message, details });
    }
  });

  it("may do what its roles permit, in their namespace", async () => {
    const { namespace, token } = await account();
    await bind(namespace, [
      { apiGroups: [""], resources: ["pods", "pods/log"], verbs: ["get", "list"] },
      { apiGroups: [""], resources: ["configmaps"], resourceNames: ["mine"], verbs: ["get", "list"] },
      { apiGroups: ["apps"], resources: ["*/status"], verbs: ["*"] },
      { apiGroups: [""], resources: ["namespaces"], verbs: ["get"] },
    ]);
    const inside = `/api/v1/namespaces/${namespace}`;
    await api().post(`${inside}/configmaps`, configMap("mine"));
    const code = async (path: string, method = "GET"): Promise<number> =>
      (await api().call(method, path, { token })).code;
    // A real server knows of new roles a moment later.
    await until("the role is known", async () => (await code(`${inside}/pods`)) === 200);
    const expected = {
      [`${inside}/pods/a`]: 404,
      [`${inside}/pods/a/log`]: 404,
      [`${inside}/pods/a/status`]: 403,
      [`${inside}/pods?watch=1`]: 403,
      "/api/v1/pods": 403,
      "/api/v1/namespaces/default/pods": 403,
      [`${inside}/configmaps`]: 403,
      [`${inside}/configmaps?fieldSelector=metadata.name%3Dmine`]: 200,
      [`${inside}/configmaps/mine`]: 200,
      [`${inside}/configmaps/other`]: 403,
      [inside]: 200,
      "/api/v1/namespaces/default": 403,
      [`/apis/apps/v1/namespaces/${namespace}/deployments/a/status`]: 404,
      [`/apis/apps/v1/namespaces/${namespace}/deployments/a`]: 403,
    };
    const found = await Promise.all(Object.keys(expected).map(async (path) => [path, await code(path)] as const));
    expect(Object.fromEntries(found)).toEqual(expected);
    expect(await code(`${inside}/pods/a`, "DELETE")).toBe(403);

    const mayI = async (resource: string): Promise<unknown> => {
      const body = { spec: { resourceAttributes: { verb: "list", resource, namespace } } };
      const review = await api().call("POST", `${REVIEWS}/selfsubjectaccessreviews`, { body, token });
      return at(review.body, "status");
    };
    expect(await mayI("pods")).toEqual({
      allowed: true,
      reason: `RBAC: allowed by RoleBinding "tends/${namespace}" of Role "tender" to ServiceAccount "robot/${namespace}"`,
    });
    expect(await mayI("secrets")).toEqual({ allowed: false });
  });

  it("answers other servers with the user of a token, and with no user for a wrong one", async () => {
    const { namespace, token } = await account();
    const review = async (shown: string): Promise<unknown> => {
      const body = { spec: { token: shown } };
      return at((await api().call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", { body })).body, "status");
    };
    expect(await review(token)).toMatchObject({
      authenticated: true,
      user: {
        username: `system:serviceaccount:${namespace}:robot`,
        groups: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"],
      },
    });
    const wrong = await review(`${token}x`);
    expect(wrong).toMatchObject({ user: {} });
    expect(wrong).not.toHaveProperty("authenticated", true);
  });

  it("answers other servers with the rights of a user, also on resources that it does not know", async () => {
    const { namespace } = await account();
    await bind(namespace, [{ apiGroups: ["example.com"], resources: ["things"], verbs: ["get"] }]);
    const user = `system:serviceaccount:${namespace}:robot`;
    const mayHe = async (verb: string, inside: string): Promise<unknown> => {
      const resourceAttributes = { group: "example.com", resource: "things", verb, namespace: inside };
      const body = { spec: { user, resourceAttributes } };
      return at((await api().call("POST", `${REVIEWS}/subjectaccessreviews`, { body })).body, "status", "allowed");
    };
    await until("the role is known", async () => (await mayHe("get", namespace)) === true);
    expect([await mayHe("list", namespace), await mayHe("get", "default")]).toEqual([false, false]);
    const noUser = { spec: { resourceAttributes: { resource: "things", verb: "get" } } };
    expect((await api().call("POST", `${REVIEWS}/subjectaccessreviews`, { body: noUser })).code).toBe(422);
  });
}
