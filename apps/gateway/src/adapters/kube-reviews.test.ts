import { findFault } from "@muster/faults";
import { KubeError } from "@muster/kube";
import { expect, it } from "vitest";
import { kubeAuthenticator, kubeAuthorizer } from "./kube-reviews.ts";

/** An API server that answers all reviews with a status. */
function world(status: object | Error) {
  let nowMs = 0;
  const asked: object[] = [];
  const reviews = {
    create: <Review extends object>(_resource: object, review: Review): Promise<Review> => {
      asked.push(review);
      return status instanceof Error ? Promise.reject(status) : Promise.resolve({ ...review, status });
    },
  };
  return { reviews, asked, now: () => nowMs, wait: (ms: number) => void (nowMs += ms) };
}

const ADA = { name: "ada", uid: "u-1", groups: ["team-a"], extra: { scopes: ["all"] } };
const ACCESS = { verb: "get", resource: "jobs", namespace: "default", name: "train" } as const;

it("reviews a right once in 10 s", async () => {
  const { reviews, asked, now, wait } = world({ allowed: true });
  const authorize = kubeAuthorizer(reviews, now);
  expect(await Promise.all([authorize(ADA, ACCESS), authorize(ADA, ACCESS)])).toEqual([true, true]);
  wait(9999);
  await authorize(ADA, ACCESS);
  expect(asked).toMatchObject([
    {
      spec: { user: "ada", uid: "u-1", groups: ["team-a"], extra: { scopes: ["all"] }, resourceAttributes: ACCESS },
    },
  ]);
  wait(1);
  await authorize(ADA, ACCESS);
  expect(asked).toHaveLength(2);
});

it.each([
  ["another user", { ...ADA, name: "bob" }, ACCESS],
  ["another group", { ...ADA, groups: [] }, ACCESS],
  ["another verb", ADA, { ...ACCESS, verb: "delete" } as const],
  ["another name", ADA, { ...ACCESS, name: "other" }],
])("reviews %s separately", async (_what, user, access) => {
  const { reviews, asked, now } = world({ allowed: true });
  const authorize = kubeAuthorizer(reviews, now);
  await authorize(ADA, ACCESS);
  await authorize(user, access);
  expect(asked).toHaveLength(2);
});

it.each([{ allowed: false }, {}, { allowed: "yes" }])(
  "denies a right that the answer %o does not allow",
  async (status) => {
    const { reviews, now } = world(status);
    expect(await kubeAuthorizer(reviews, now)(ADA, ACCESS)).toBe(false);
  },
);

it("reports an outage of the API server, and retries", async () => {
  const { reviews, asked, now } = world(new KubeError("POST", 503, {}, {}));
  const authorize = kubeAuthorizer(reviews, now);
  for (const attempt of [1, 2]) {
    const failure: unknown = await authorize(ADA, ACCESS).catch((error: unknown) => error);
    expect(findFault(failure)?.code, `attempt ${attempt}`).toBe("unavailable");
  }
  expect(asked).toHaveLength(2);
});

it("accepts a user by a token with its audience", async () => {
  const user = { username: "ada", groups: ["team-a"] };
  const { reviews, now } = world({ authenticated: true, audiences: ["muster"], user });
  expect(await kubeAuthenticator(reviews, "muster", now)("t")).toMatchObject({ name: "ada", groups: ["team-a"] });
  expect(await kubeAuthenticator(reviews, "other", now)("t")).toBeUndefined();
});

it("finds no user for a token that is unknown to the API server", async () => {
  const { reviews, now } = world({ authenticated: false, user: { username: "ada" } });
  expect(await kubeAuthenticator(reviews, undefined, now)("t")).toBeUndefined();
});
