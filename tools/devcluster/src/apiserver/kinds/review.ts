import { attributesIn } from "../access/attributes.ts";
import { findGrant } from "../access/decide-access.ts";
import { describeUser } from "../access/user.ts";
import { objectAt } from "../json.ts";
import { defineResource, type Resource } from "../resource.ts";
import { fail, invalid, invalidValue } from "../status.ts";

/** `kubectl auth can-i`; the provision engine checks the rights of an account with it. */
export const accessReviews: Resource = defineResource({
  group: "authorization.k8s.io",
  kind: "SelfSubjectAccessReview",
  plural: "selfsubjectaccessreviews",
  namespaced: false,
  answer: (review, { user, book }) => {
    const { resourceAttributes, nonResourceAttributes } = objectAt(review, "spec");
    if ((resourceAttributes === undefined) === (nonResourceAttributes === undefined)) {
      const because = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
      const problem = invalidValue("spec.resourceAttributes", null, because);
      return fail(invalid({ group: "authorization.k8s.io", kind: "" }, "", [problem]));
    }
    const grant = findGrant(user, attributesIn(review), book);
    const reason = grant === undefined || grant.because === "" ? {} : { reason: grant.because };
    return { metadata: {}, ...review, status: { allowed: grant !== undefined, ...reason } };
  },
});

/** `kubectl auth whoami`. */
export const subjectReviews: Resource = defineResource({
  group: "authentication.k8s.io",
  kind: "SelfSubjectReview",
  plural: "selfsubjectreviews",
  namespaced: false,
  answer: (review, { user }) => ({ metadata: {}, ...review, status: { userInfo: describeUser(user) } }),
});
