// Prints what an API server decides about requests by ValidatingAdmissionPolicies.
//
// Input and output are JSON: policies and requests, and for each request the messages by which it
// is refused. It compiles and evaluates the policies with the packages of the API server.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

type request struct {
	Operation   string                     `json:"operation"`
	Resource    string                     `json:"resource"`
	Subresource string                     `json:"subresource"`
	ScaledGroup string                     `json:"scaledGroup"`
	User        string                     `json:"user"`
	Groups      []string                   `json:"groups"`
	Object      *unstructured.Unstructured `json:"object"`
	OldObject   *unstructured.Unstructured `json:"oldObject"`
	Namespace   *corev1.Namespace          `json:"namespace"`
	// of a deletion
	Options *metav1.DeleteOptions `json:"options"`
	// of the kind that a policy names for its parameters, as its binding selects them
	Params []*unstructured.Unstructured `json:"params"`
}

type input struct {
	Policies []admissionregistration.ValidatingAdmissionPolicy `json:"policies"`
	Requests []request                                         `json:"requests"`
}

func main() {
	var given input
	must(json.NewDecoder(os.Stdin).Decode(&given))
	validators := make([]validating.Validator, len(given.Policies))
	for i := range given.Policies {
		validators[i] = compile(&given.Policies[i])
	}
	answers := make([][]string, len(given.Requests))
	for i, req := range given.Requests {
		answers[i] = []string{}
		for j := range given.Policies {
			if matches(&given.Policies[j], &req) {
				for _, param := range paramsOf(&given.Policies[j], &req) {
					answers[i] = append(answers[i], refusals(validators[j], &req, param)...)
				}
			}
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(answers))
}

// As the API server does (validating/plugin.go, compilePolicy), which does not export it.
func compile(policy *admissionregistration.ValidatingAdmissionPolicy) validating.Validator {
	options := cel.OptionalVariableDeclarations{
		HasAuthorizer: true, HasParams: policy.Spec.ParamKind != nil,
	}
	failurePolicy := policy.Spec.FailurePolicy
	compiler, err := cel.NewCompositedCompiler(
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	must(err)
	for _, variable := range policy.Spec.Variables {
		result := compiler.CompileAndStoreVariable(
			&validating.Variable{Name: variable.Name, Expression: variable.Expression},
			options, environment.NewExpressions)
		if result.Error != nil {
			must(fmt.Errorf("%s: variable %s: %v", policy.Name, variable.Name, result.Error))
		}
	}
	conditions := []cel.ExpressionAccessor{}
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	validations := []cel.ExpressionAccessor{}
	for _, validation := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{
			Expression: validation.Expression, Message: validation.Message, Reason: validation.Reason,
		})
	}
	compiled := func(expressions []cel.ExpressionAccessor) cel.ConditionEvaluator {
		result := compiler.CompileCondition(expressions, options, environment.NewExpressions)
		for _, err := range result.CompilationErrors() {
			must(fmt.Errorf("%s: %v", policy.Name, err))
		}
		return result
	}
	matcher := matchconditions.NewMatcher(
		compiled(conditions), failurePolicy, "policy", "validate", policy.Name)
	nothing := compiled([]cel.ExpressionAccessor{})
	// one message expression for each validation, none of which is set
	messages := compiled(make([]cel.ExpressionAccessor, len(validations)))
	return validating.NewValidator(
		compiled(validations), matcher, nothing, messages, failurePolicy, nil)
}

func matches(policy *admissionregistration.ValidatingAdmissionPolicy, req *request) bool {
	constraints := policy.Spec.MatchConstraints
	selector, err := metav1.LabelSelectorAsSelector(constraints.NamespaceSelector)
	must(err)
	if constraints.NamespaceSelector != nil && req.Namespace != nil &&
		!selector.Matches(labels.Set(req.Namespace.Labels)) {
		return false
	}
	attributes := attributesOf(req)
	for _, rule := range constraints.ResourceRules {
		matcher := rules.Matcher{Rule: rule.RuleWithOperations, Attr: attributes}
		if matcher.Matches() {
			return true
		}
	}
	return false
}

// As the API server does (generic/policy_dispatcher.go, CollectParams).
func paramsOf(policy *admissionregistration.ValidatingAdmissionPolicy, req *request) []runtime.Object {
	if policy.Spec.ParamKind == nil {
		return []runtime.Object{nil}
	}
	params := []runtime.Object{}
	for _, param := range req.Params {
		params = append(params, param)
	}
	return params
}

func refusals(validator validating.Validator, req *request, param runtime.Object) []string {
	attributes := attributesOf(req)
	versioned := &admission.VersionedAttributes{
		Attributes:         attributes,
		VersionedObject:    attributes.GetObject(),
		VersionedOldObject: attributes.GetOldObject(),
		VersionedKind:      attributes.GetKind(),
	}
	result := validator.Validate(context.Background(), attributes.GetResource(), versioned, param,
		req.Namespace, celconfig.RuntimeCELCostBudget, nil)
	messages := []string{}
	for _, decision := range result.Decisions {
		if decision.Action != validating.ActionAdmit {
			messages = append(messages, decision.Message)
		}
	}
	return messages
}

func attributesOf(req *request) admission.Attributes {
	subject := req.Object
	if subject == nil {
		subject = req.OldObject
	}
	kind := subject.GroupVersionKind()
	resource := schema.GroupVersionResource{
		Group: kind.Group, Version: kind.Version, Resource: req.Resource,
	}
	if kind.Kind == "Scale" {
		resource.Group, resource.Version = req.ScaledGroup, "v1"
	}
	var options runtime.Object
	if req.Options != nil {
		options = req.Options
	}
	return admission.NewAttributesRecord(asObject(req.Object), asObject(req.OldObject), kind,
		subject.GetNamespace(), subject.GetName(), resource, req.Subresource, admission.Operation(req.Operation),
		options, false, &user.DefaultInfo{Name: req.User, Groups: req.Groups})
}

// A nil pointer would be an interface that is not nil.
func asObject(object *unstructured.Unstructured) runtime.Object {
	if object == nil {
		return nil
	}
	return object
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
