// Prints what an API server decides about writes of objects by the rules of their
// CustomResourceDefinition.
//
// Input and output are JSON: a definition and writes, and for each write the messages by which it
// is refused. It checks the definition and evaluates its CEL rules with the API server's packages.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

type write struct {
	Object *unstructured.Unstructured `json:"object"`
	// none of a creation
	OldObject *unstructured.Unstructured `json:"oldObject"`
}

type input struct {
	Definition apiextensionsv1.CustomResourceDefinition `json:"definition"`
	Writes     []write                                  `json:"writes"`
}

func main() {
	var given input
	must(json.NewDecoder(os.Stdin).Decode(&given))
	structural := read(&given.Definition)
	validator := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	answers := make([][]string, len(given.Writes))
	for i := range given.Writes {
		answers[i] = refusals(validator, structural, &given.Writes[i])
	}
	must(json.NewEncoder(os.Stdout).Encode(answers))
}

// As the API server does when the definition is created, also with its limits of costs.
func read(definition *apiextensionsv1.CustomResourceDefinition) *schema.Structural {
	apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
	var internal apiextensions.CustomResourceDefinition
	must(apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(
		definition, &internal, nil))
	internal.Status.StoredVersions = []string{definition.Spec.Versions[0].Name}
	must(definitions.ValidateCustomResourceDefinition(context.Background(), &internal).ToAggregate())
	// the conversion moves the schema of a single version to the top
	structural, err := schema.NewStructural(internal.Spec.Validation.OpenAPIV3Schema)
	must(err)
	return structural
}

// As the API server does, also for a status (registry/customresource/strategy.go, ValidateUpdate).
func refusals(validator *cel.Validator, structural *schema.Structural, asked *write) []string {
	options := []cel.Option{}
	var old any
	if asked.OldObject != nil {
		old = asked.OldObject.Object
		options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(
			asked.Object.Object, asked.OldObject.Object, &model.Structural{Structural: structural})))
	}
	var root *field.Path
	errors, _ := validator.Validate(context.Background(), root, structural, asked.Object.Object, old,
		celconfig.RuntimeCELCostBudget, options...)
	messages := []string{}
	for _, err := range errors {
		messages = append(messages, err.Detail)
	}
	return messages
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
