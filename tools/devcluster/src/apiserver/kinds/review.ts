import { readReviewAttributes } from "../access/attributes.ts";
import { findGrant, type RoleBook } from "../access/decide-access.ts";
import { describeUser, type User } from "../access/user.ts";
import { type JsonObject, getObject, getText, getTexts } from "../json.ts";
import { defineResource, type Resource } from "../resource.ts";
import { fail, invalid, invalidValue } from "../status.ts";

/** `kubectl auth can-i`; the provision engine checks the rights of an account with it. */
export const accessReviews: Resource = defineResource({
  group: "authorization.k8s.io",
  kind: "SelfSubjectAccessReview",
  plural: "selfsubjectaccessreviews",
  namespaced: false,
  answer: (review, { user, book }) => answerAccess(review, user, book),
});

/** The review that a server of another API, such as the gateway, sends for its users. */
export const subjectAccessReviews: Resource = defineResource({
  group: "authorization.k8s.io",
  kind: "SubjectAccessReview",
  plural: "subjectaccessreviews",
  namespaced: false,
  answer: (review, { book }) => {
    const user: User = {
      name: getText(review, "spec", "user"),
      uid: undefined,
      groups: getTexts(getObject(review, "spec"), "groups"),
      extra: {},
    };
    if (user.name !== "" || user.groups.length > 0) return answerAccess(review, user, book);
    const problem = invalidValue("spec.user", null, "at least one of user or group must be specified");
    return fail(invalid({ group: "authorization.k8s.io", kind: "" }, "", [problem]));
  },
});

function answerAccess(review: JsonObject, user: User, book: RoleBook): JsonObject {
  const { resourceAttributes, nonResourceAttributes } = getObject(review, "spec");
  if ((resourceAttributes === undefined) === (nonResourceAttributes === undefined)) {
    const because = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    const problem = invalidValue("spec.resourceAttributes", null, because);
    return fail(invalid({ group: "authorization.k8s.io", kind: "" }, "", [problem]));
  }
  const grant = findGrant(user, readReviewAttributes(review), book);
  const reason = grant === undefined || grant.because === "" ? {} : { reason: grant.because };
  return { metadata: {}, ...review, status: { allowed: grant !== undefined, ...reason } };
}

/** `kubectl auth whoami`. */
export const subjectReviews: Resource = defineResource({
  group: "authentication.k8s.io",
  kind: "SelfSubjectReview",
  plural: "selfsubjectreviews",
  namespaced: false,
  answer: (review, { user }) => ({ metadata: {}, ...review, status: { userInfo: describeUser(user) } }),
});

/** Returns the user of a token to a server of another API. */
export const tokenReviews: Resource = defineResource({
  group: "authentication.k8s.io",
  kind: "TokenReview",
  plural: "tokenreviews",
  namespaced: false,
  answer: (review, { identify }) => {
    const user = identify(getText(review, "spec", "token"));
    const spec = getObject(review, "spec");
    if (user !== undefined)
      return { metadata: {}, ...review, spec, status: { authenticated: true, user: describeUser(user) } };
    return { metadata: {}, ...review, spec, status: { error: "the token is unknown or expired", user: {} } };
  },
});
