import { attributesIn } from "../access/attributes.ts";
import { findGrant, grantsOf } from "../access/decide-access.ts";
import { describeUser } from "../access/user.ts";
import { at, type Json, objectAt, textAt } from "../json.ts";
import { defineResource, type Resource } from "../resource.ts";
import { fail, invalid, invalidValue } from "../status.ts";

/** `kubectl auth can-i`. */
export const accessReviews: Resource = defineResource({
  group: "authorization.k8s.io",
  kind: "SelfSubjectAccessReview",
  plural: "selfsubjectaccessreviews",
  namespaced: false,
  columns: [],
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

/** `kubectl auth can-i --list`. */
export const rulesReviews: Resource = defineResource({
  group: "authorization.k8s.io",
  kind: "SelfSubjectRulesReview",
  plural: "selfsubjectrulesreviews",
  namespaced: false,
  columns: [],
  answer: (review, { user, book }) => {
    const rules = grantsOf(user, textAt(review, "spec", "namespace"), book).map(({ rule }) => rule);
    const isOfPaths = (rule: Json): boolean => at(rule, "nonResourceURLs") !== undefined;
    const status = {
      resourceRules: rules.filter((rule) => !isOfPaths(rule)),
      nonResourceRules: rules.filter(isOfPaths),
      incomplete: false,
    };
    return { metadata: {}, ...review, spec: {}, status };
  },
});

/** `kubectl auth whoami`. */
export const subjectReviews: Resource = defineResource({
  group: "authentication.k8s.io",
  kind: "SelfSubjectReview",
  plural: "selfsubjectreviews",
  namespaced: false,
  columns: [],
  answer: (review, { user }) => ({ metadata: {}, ...review, status: { userInfo: describeUser(user) } }),
});
